"""The people of the house: actors that exchange mail and live under the supervisor."""
