# sh ground.sh BAGGAGE COMMAND…: becomes COMMAND in a disposable copy of this machine. Whatever is
# changed in it is gone with the last process there. Needs a mount and a network namespace of its own.
set -eu
baggage=$1; shift
mount -t tmpfs -o mode=0755 tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root
mkdir -p proc sys dev tmp run old baggage
mount --rbind /proc proc
mount --rbind /sys sys
mount -t bpf -o mode=0700 bpf sys/fs/bpf
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --rbind "$baggage" baggage
# Devices of our own making, so that something can be planted beside them.
mount -t tmpfs -o mode=0755 tmpfs dev
for name in null zero full random urandom tty; do
    : > dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm
mount --rbind /dev/pts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
pivot_root . old
umount -l /old
rmdir /old
ip link set lo up
exec "$@"
