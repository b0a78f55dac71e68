"""A host's ssh arguments, read as the real ssh reads them."""

import shlex
import subprocess

import pytest

from exocomp.inventory import ssh_args
from exocomp.inventory.address import Fault

JUMP = "ProxyJump=jump@198.51.100.1:2222"
PROXIES = {
    "-o ProxyJump=jump@198.51.100.1:2222": JUMP,
    "-oProxyJump=jump@198.51.100.1:2222": JUMP,
    '-o "ProxyJump jump@198.51.100.1:2222"': JUMP,
    '-o "proxyjump = jump@198.51.100.1:2222"': JUMP,
    "-J jump@198.51.100.1:2222": JUMP,
    "-Jjump@198.51.100.1:2222": JUMP,
    "-4vJ jump@198.51.100.1:2222": JUMP,
    '-o ProxyCommand="ssh -W %h:%p jump"': "ProxyCommand=ssh -W %h:%p jump",
    "-o 'ProxyCommand ssh -W %h:%p jump'": "ProxyCommand=ssh -W %h:%p jump",
    "-o PROXYCOMMAND='nc -X 5 %h %p'": "ProxyCommand=nc -X 5 %h %p",
    "-o ProxyCommand=none": None,
    "-o ProxyJump=None": None,
    "-o ProxyCommand=none -o ProxyJump=jump": None,
    "-o ProxyJump=a -o ProxyJump=b": "ProxyJump=a",
    "-o ProxyCommand='nc -o x=none %h %p'": "ProxyCommand=nc -o x=none %h %p",
    "-C -o ControlMaster=auto -o ControlPersist=60s": None,
    "-o SetEnv=X=ProxyJump=y": None,
    "": None,
}
DESTINATIONS = [
    "-p 2222",
    "-p2222 -l core",
    "-o Port=2222 -p 2223",
    '-o "Port 2222" -oUser=core',
    "-o HostName=192.0.2.9",
    '-o HostName="%h.example.test" -l "a b"',
    "-vvv -C -o ServerAliveInterval=5 -p 24",
]


@pytest.mark.parametrize(("text", "proxy"), PROXIES.items())
def test_a_jump_host_is_seen_in_every_spelling(text: str, proxy: str | None) -> None:
    assert ssh_args.read("", (), (text,)).proxy == proxy


@pytest.mark.parametrize("text", [*PROXIES, *DESTINATIONS])
def test_our_reading_is_the_reading_of_the_real_ssh(text: str) -> None:
    done = subprocess.run(
        ["ssh", "-F", "none", "-G", *shlex.split(text), "--", "web1"], capture_output=True, text=True, check=True
    )
    real = dict(line.partition(" ")[::2] for line in done.stdout.translate({ord("["): "", ord("]"): ""}).splitlines())
    ours = ssh_args.read(text, (), ())
    assert real["hostname"] == (ours.host_name or "web1").replace("%h", "web1")
    assert real["port"] == (ours.port or "22")
    if ours.user is not None:
        assert real["user"] == ours.user
    proxies = [f"{key}={real[low]}" for key in ("ProxyJump", "ProxyCommand") if (low := key.lower()) in real]
    assert [line for line in proxies if not line.endswith("=none")] == ([ours.proxy] if ours.proxy else [])


def test_the_first_value_wins_with_ansibles_own_options_in_between() -> None:
    own = (("port", "2"), ("user", "ansible"), ("identityfile", "/k"))
    assert ssh_args.read("-p 1", own, ("-p 3 -l other -i /other",)) == ssh_args.Dialled(
        port="1", user="ansible", identity_file="/k"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-o HostKeyAlias=x", "HostKeyAlias"),
        ("-F /home/me/.ssh/config", "ssh configuration"),
        ("web2", "as the host"),
        ("-o 'ProxyJump=x", "split"),
        ("--help", "what ssh takes"),
    ],
)
def test_what_would_hide_the_destination_is_refused(text: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        ssh_args.read("", (), (text,))
