# The guard of one PostgreSQL server: $1 is its directory, $2 the seconds to
# wait after the last user has left.
#
# Descriptor 3 reads the FIFO that the users of the server hold open for
# writing, so reading ends when the last user is gone. Descriptor 4 has the lock
# that says that the guard lives, so what may outlive the guard must not get it.

dir=$1
linger=$2
pidfile=$dir/data/postmaster.pid

exec <&3 3<&-

# A user that joins opens the FIFO by name and writes a line. Once the name is
# taken away, nobody can join any more, and reading a last time tells whether
# somebody came just before.
while :; do
	while read -r line; do :; done
	if [ "$linger" -gt 0 ]; then sleep "$linger" 4<&-; fi
	mv -f "$dir/users" "$dir/users.closed" 2>/dev/null
	read -r line || break
	mv -f "$dir/users.closed" "$dir/users"
done

# running says whether the process id in the server's file is still the server:
# the file of a crashed server may name a process that has nothing to do with it.
running() {
	[ -f "$pidfile" ] || return 1
	read -r pid <"$pidfile" || return 1
	if [ -r "/proc/$pid/cmdline" ]; then
		command=$(tr '\0' ' ' <"/proc/$pid/cmdline")
	else
		command=$(ps -ww -o args= -p "$pid")
	fi
	case $command in
	*"$dir/data"*) return 0 ;;
	*) return 1 ;;
	esac
}

# doze sleeps a moment; not every sleep knows fractions.
doze() {
	sleep 0.05 2>/dev/null 4<&- || sleep 1 4<&-
}

# The data is about to go, so the server may stop at once and without care.
if running; then kill -QUIT "$pid"; fi
tries=200
while running && [ "$tries" -gt 0 ]; do
	tries=$((tries - 1))
	doze
done
if running; then kill -KILL "$pid"; fi

# A server that was killed has left a small System V segment, which the file
# names by key and number. Both must fit, in case the number is used again.
if [ -f "$pidfile" ]; then
	set -- $(sed -n 7p "$pidfile")
	if [ $# -eq 2 ]; then
		key=$(printf '0x%08x' "$1")
		if ipcs -m 2>/dev/null | grep "$key" | grep -qw "$2"; then
			ipcrm -m "$2" 2>/dev/null
		fi
	fi
fi

tries=100
while [ -e "$dir" ]; do
	rm -rf "$dir" 2>/dev/null
	if [ ! -e "$dir" ]; then
		rmdir "${dir%/*}" 2>/dev/null # where this was the last server
		exit 0
	fi
	tries=$((tries - 1))
	[ "$tries" -gt 0 ] || exit 1
	doze
done
