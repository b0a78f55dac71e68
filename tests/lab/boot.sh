#!/bin/bash
# Runs as PID 1 of a new machine, inside fresh mount, pid, uts and ipc namespaces and the machine's own network:
# boot.sh DIRECTORY NAME ADDRESS AUTHORIZED_KEY PORT SSHD(yes|no)
# Its disk is an overlay over this system's root, writable in memory only; it is gone when PID 1 is.
set -euo pipefail
dir=$1 name=$2 address=$3 key=$4 port=$5 sshd=$6

mount -t tmpfs -o mode=755,size=512m disk "$dir"
mkdir "$dir"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" root "$dir/root"
cd "$dir/root"

for hidden in root home tmp run var/tmp mnt opt; do mkdir -p $hidden && mount -t tmpfs -o mode=755 hidden $hidden; done
chmod 1777 tmp var/tmp
chmod 700 root
mkdir -m 700 root/.ssh
mkdir run/sshd
printf '%s\n' "$key" >root/.ssh/authorized_keys
chmod 600 root/.ssh/authorized_keys
rm -f etc/ssh/ssh_host_* etc/hostname etc/hosts etc/machine-id
hostname "$name"
echo "$name" >etc/hostname
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >etc/hosts
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
for type in ed25519 ecdsa; do ssh-keygen -q -t $type -N '' -f etc/ssh/ssh_host_${type}_key -C "$name"; done
cat >etc/ssh/sshd_config <<CONFIG
Port $port
HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_ecdsa_key
AuthorizedKeysFile .ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200
MaxSessions 50
PidFile none
Subsystem sftp internal-sftp
CONFIG

mount -t tmpfs -o mode=755 dev dev
for node in null zero full random urandom tty; do touch dev/$node && mount --bind /dev/$node dev/$node; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 pts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t proc proc proc
mount -t sysfs -o ro sys sys || true

# exec keeps PID 1: sshd reaps orphans, and SIGHUP makes it read new host keys.
case $sshd in
yes) set -- /usr/sbin/sshd -D -e ;;
no) set -- /bin/sleep infinity ;;
esac
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot . "$@"
