"""Host keys, banners and the fleet key: the only room that imports asyncssh."""
