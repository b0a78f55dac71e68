"""Goal 1: the whole chain over N fresh machines, against the shell script that a person would write.

`python -m bench.chain [N]` as root; each round makes its machines anew, on both sides through the same module.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.ratio import compare
from tests.lab.estate import WORKSPACE, Estate
from tests.lab.machines import Lab

PLAYS = Path(__file__).parent / "plays"
SCRIPT = r"""
set -euo pipefail
terraform init -input=false >/dev/null
terraform apply -input=false -auto-approve >/dev/null
terraform output -json ansible_inventory >inventory.json
for address in $(grep -o '10\.77\.[0-9.]*' inventory.json | sort -u); do
  until (exec 3<>/dev/tcp/$address/22 && head -c 3 <&3 | grep -q SSH) 2>/dev/null; do sleep 1; done
  ssh-keyscan "$address" 2>/dev/null >>known_hosts
done
export ANSIBLE_SSH_COMMON_ARGS="-o UserKnownHostsFile=$PWD/known_hosts"
common="-i inventory.json --private-key $KEY"
ansible-playbook $common -e "{\"exocomp_fleet_pubkey\": \"$(cat "$KEY.pub")\"}" "$ONBOARD"
ansible-playbook $common "$PLAY"
"""


def main(count: int) -> None:
    lab = Lab()
    estate = Estate(lab)
    names = [f"web{number}" for number in range(1, count + 1)]
    try:
        Path(f"{estate.key}.pub").write_text(lab.public_key)
        estate.home.serve()
        estate.register()

        def afresh() -> None:
            """Machines that nobody has seen, at addresses that nobody knows."""
            for name in list(estate.cloud.machines):
                estate.cloud.destroy(name)
            estate.cloud.network = lab.network()
            estate.order(*names)

        def chain() -> None:
            afresh()
            words = ("provision", "run", WORKSPACE, str(PLAYS / "configure.yml"), "--ssh-identity", str(estate.key))
            estate.home.run(*words, "--wait")

        def script() -> None:
            afresh()
            plays = {"ONBOARD": str(PLAYS / "onboard.yml"), "PLAY": str(PLAYS / "configure.yml")}
            env = estate.home.env(KEY=str(estate.key), **plays)
            subprocess.run(
                [*lab.argv, "bash", "-c", SCRIPT], cwd=estate.module, env=env, check=True, capture_output=True
            )

        compare(f"chain of {WORKSPACE} over {count} machine(s)", chain, script, rounds=3, goal=0.60)
    finally:
        estate.close()
        lab.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
