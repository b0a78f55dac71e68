"""Numbers of the system calls that the filter looks at, for each machine (asm/unistd.h)."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """`judged` calls are decided by their arguments, `denied` ones by their number alone."""

    arch: int  # AUDIT_ARCH_* of linux/audit.h
    seccomp: int
    judged: dict[str, int]
    denied: dict[str, int]


_X86_64 = Table(
    arch=0xC000003E,
    seccomp=317,
    judged={
        "socket": 41,
        "socketpair": 53,
        "sendto": 44,
        "sendmsg": 46,
        "sendmmsg": 307,
        "setsockopt": 54,
        "ioctl": 16,
        "clone": 56,
        "clone3": 435,
    },
    denied={
        **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312},
        **{"pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448},
        **{"bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300, "lookup_dcookie": 212},
        **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
        **{"add_key": 248, "request_key": 249, "keyctl": 250},
        **{"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_by_handle_at": 304},
        **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
        **{"mount_setattr": 442, "open_tree_attr": 467, "unshare": 272, "setns": 308},
        **{"kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "personality": 135, "vhangup": 153},
        **{"init_module": 175, "finit_module": 313, "delete_module": 176, "create_module": 174},
        **{"swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179, "quotactl_fd": 443, "syslog": 103},
        **{"settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305},
        **{"sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "modify_ldt": 154},
        **{"mbind": 237, "migrate_pages": 256, "move_pages": 279},
        **{"uselib": 134, "ustat": 136, "sysfs": 139, "_sysctl": 156, "nfsservctl": 180},
    },
)
_AARCH64 = Table(
    arch=0xC00000B7,
    seccomp=277,
    judged={
        "socket": 198,
        "socketpair": 199,
        "sendto": 206,
        "sendmsg": 211,
        "sendmmsg": 269,
        "setsockopt": 208,
        "ioctl": 29,
        "clone": 220,
        "clone3": 435,
    },
    denied={
        **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272},
        **{"pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448},
        **{"bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "fanotify_init": 262, "lookup_dcookie": 18},
        **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
        **{"add_key": 217, "request_key": 218, "keyctl": 219},
        **{"mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "open_by_handle_at": 265},
        **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
        **{"mount_setattr": 442, "open_tree_attr": 467, "unshare": 97, "setns": 268},
        **{"kexec_load": 104, "kexec_file_load": 294, "reboot": 142, "personality": 92, "vhangup": 58},
        **{"init_module": 105, "finit_module": 273, "delete_module": 106},
        **{"swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60, "quotactl_fd": 443, "syslog": 116},
        **{"settimeofday": 170, "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266},
        **{"sethostname": 161, "setdomainname": 162},
        **{"mbind": 235, "migrate_pages": 238, "move_pages": 239},
        **{"nfsservctl": 42},
    },
)
BY_MACHINE = {"x86_64": _X86_64, "aarch64": _AARCH64}
