#!/bin/sh
# Slurm HealthCheckProgram: drains this node when its GPUs are not well, and takes back only its own drain.
# Install as /opt/kpro/slurm-healthcheck.sh, mode 0755, and in slurm.conf:
#   HealthCheckProgram=/opt/kpro/slurm-healthcheck.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY
# Slurm starts it on every node of the cluster: one without a gpu in its Gres and without an NVIDIA GPU on the bus is
# none of its business. How many GPUs there must be is what Gres says, unless PROVCHECK_OPTIONS in
# /etc/default/provcheck does.
# Slurm kills it after 60 s. At worst: 32 s for the check and 6 s for each of three calls of scontrol, 50 s.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:$PATH
PROVCHECK="/usr/bin/python3 /opt/kpro/provcheck.pyz"
OPTIONS=/etc/default/provcheck
BUS=/sys/bus/pci/devices
OWN="provcheck: "
node=${SLURMD_NODENAME:-$(hostname -s)}

say() { echo "slurm-healthcheck: $*" >&2; }
slurm() { timeout -k 1 5 scontrol "$@"; }

# What Slurm knows: the state, like IDLE+DRAIN, the reason of a drain without who gave it and when, and the Gres.
seen() {
    shown=$(slurm show node "$node") || return 1
    state=$(printf '%s\n' "$shown" | sed -n 's/^ *State=\([^ ]*\).*/\1/p' | head -n 1)
    reason=$(printf '%s\n' "$shown" | sed -n 's/^ *Reason=//p' | head -n 1 | sed 's/ \[[^]]*\]$//')
    gres=$(printf '%s\n' "$shown" | sed -n 's/^ *Gres=\([^ ]*\).*/\1/p' | head -n 1)
    [ -n "$state" ]
}

# One line per kind of GPU: gpu:8, gpu:h100:4(S:0-1) and so on; the parts of a list may hold commas in brackets.
kinds() { printf '%s\n' "$gres" | sed 's/([^)]*)//g' | tr ',' '\n' | grep -E '^gpu(:|$)'; }

on_the_bus() {
    for device in "$BUS"/*; do
        [ "$(cat "$device/vendor" 2>/dev/null)" = 0x10de ] || continue
        case $(cat "$device/class" 2>/dev/null) in 0x03*) return 0 ;; esac
    done
    return 1
}

# The options that follow from Gres. MIG devices are counted there as GPUs are, so their number is none of boards.
planned() {
    if kinds | grep -Eq ':([a-z0-9]+_)?[0-9]+g\.[0-9]+gb'; then
        printf '%s' --mig
        return
    fi
    case " $PROVCHECK_OPTIONS " in *" --mig "*) return ;; esac
    kinds | sed -n 's/^gpu$/1/p; s/.*:\([0-9][0-9]*\)$/\1/p' |
        awk '{ all += $1 } END { if (all) printf "--expect %d", all }'
}

if ! seen; then
    say "scontrol gave no state of $node: nothing is changed"
    exit 1
fi
if ! kinds >/dev/null && ! on_the_bus; then
    exit 0
fi
PROVCHECK_OPTIONS=
# shellcheck source=/dev/null
[ ! -r "$OPTIONS" ] || . "$OPTIONS"

# shellcheck disable=SC2046,SC2086  # words; of an option that is given twice the last one holds
said=$(timeout -k 2 30 $PROVCHECK gpus --deadline 20 --format nagios --exit-style provcheck \
    $(planned) $PROVCHECK_OPTIONS 2>&1)
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

# Again: somebody may have drained the node meanwhile.
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
