# $0 is an empty directory, $1 the package, in a mount namespace of its own; LOADS is not empty where programs can be loaded,
# SYSTEMD where systemctl(1) is to be there, as it is not in a container.
mount -t tmpfs none "$0"
cd "$0"
mkdir upper work root
mount -t overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" none root
cd root
for folder in proc sys dev; do mount --rbind "/$folder" "$folder"; done
pivot_root . mnt
cd /
mount -t bpf none /sys/fs/bpf
upper=/mnt$0/upper
[ -n "$SYSTEMD" ] || [ ! -e /usr/bin/systemctl ] || mount --bind /dev/null /usr/bin/systemctl

# But for the two files that the kernel puts there itself.
pinned() { find /sys/fs/bpf -mindepth 1 ! -name '*.debug' | sed 's,^,left: ,'; }
now() { dpkg --no-triggers "$@"; }
unit=turnkey-monitor.service
now --install "/mnt$1"
[ -z "$SYSTEMD" ] || systemctl enable "$unit"
[ -z "$LOADS" ] || turnkey monitor load
now --install "/mnt$1"
[ -z "$SYSTEMD" ] || systemctl is-enabled "$unit"
pinned
[ -z "$LOADS" ] || turnkey monitor load
now --remove turnkey
[ ! -e /usr/bin/turnkey ]
pinned
now --purge turnkey

# What dpkg keeps for itself is its own; a directory that was there before is nobody's.
cd "$upper"
find . -mindepth 1 \( -path ./var/lib/dpkg -o -path ./var/log/dpkg.log -o -path ./var/cache/debconf \) -prune -o -print |
    while read -r path; do
        [ -d "$path" ] && [ -d "/mnt/$path" ] || echo "left: ${path#./}"
    done
