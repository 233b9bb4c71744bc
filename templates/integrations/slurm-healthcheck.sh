#!/bin/sh
# Slurm HealthCheckProgram: drains this node when its GPUs are not well, and takes back only its own drain.
# Install as /opt/kpro/slurm-healthcheck.sh, mode 0755, and in slurm.conf:
#   HealthCheckProgram=/opt/kpro/slurm-healthcheck.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY
# Slurm kills it after 60 s. At worst: 32 s for the check and 6 s for each of two calls of scontrol, 44 s.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:$PATH
PROVCHECK="/usr/bin/python3 /opt/kpro/provcheck.pyz"
OWN="provcheck: "
node=${SLURMD_NODENAME:-$(hostname -s)}

say() { echo "slurm-healthcheck: $*" >&2; }
slurm() { timeout -k 1 5 scontrol "$@"; }

# Two lines: the state, like IDLE+DRAIN, and the reason of a drain without who gave it and when.
seen() {
    shown=$(slurm show node "$node") || return 1
    state=$(printf '%s\n' "$shown" | sed -n 's/^ *State=\([^ ]*\).*/\1/p' | head -n 1)
    reason=$(printf '%s\n' "$shown" | sed -n 's/^ *Reason=//p' | head -n 1 | sed 's/ \[[^]]*\]$//')
    [ -n "$state" ]
}

# shellcheck disable=SC2086  # two words
said=$(timeout -k 2 30 $PROVCHECK gpus --deadline 20 --format nagios --exit-style provcheck 2>&1)
code=$?
case $code in
    0) ;;
    1 | 3) ;;
    124 | 137) said="PROVCHECK UNKNOWN: the check itself hung" ;;
    *)
        # Not installed, or called wrongly: that is no fault of this node, and would drain the whole cluster.
        say "the check did not run (exit $code): $(printf '%s' "$said" | tail -n 1)"
        exit 1
        ;;
esac

if ! seen; then
    say "scontrol gave no state of $node: nothing is changed"
    exit 1
fi
drained=no
case $state in *DRAIN*) drained=yes ;; esac
own=no
case $reason in "$OWN"*) own=yes ;; esac

if [ $code = 0 ]; then
    if [ $drained = yes ] && [ $own = yes ]; then
        say "the GPUs of $node are well again: taking back the drain ($reason)"
        slurm update NodeName="$node" State=RESUME || exit 1
    fi
    exit 0
fi

# One line without what slurm.conf-style quoting could trip over; the part before the performance data.
why=$(printf '%s\n' "$said" | grep '^PROVCHECK ' | head -n 1 | sed 's/ | .*//; s/^PROVCHECK [A-Z]*[^:]*: //' |
    tr -d "\"'=\\\\" | tr -c '[:print:]\n' '?' | cut -c 1-160)
wanted="$OWN${why:-exit $code without a word}"
say "$wanted"
if [ $drained = yes ] && [ $own = no ]; then
    say "$node is drained already, by another: $reason"
elif [ $drained = no ] || [ "$reason" != "$wanted" ]; then
    slurm update NodeName="$node" State=DRAIN Reason="$wanted" || exit 1
fi
exit 0
