# PCI functions change hands: what release, load and undo have in common.
pci=/sys/bus/pci

now() { # BDF: its driver, or nothing
  d=$(readlink "$pci/devices/$1/driver") && printf '%s' "${d##*/}"
}

# A write to sysfs, or a modprobe, can block for ever, and a signal makes it unkillable. So it gets a process and a session
# of its own, without our locks, and only its result is waited for.
apart() { # SECONDS COMMAND...: what it said and its exit status; 124 when it is still at it
  ticks=$(($1 * 10)); shift
  answer=$(mktemp -d) || return 1
  setsid sh -c 'd=$1; shift; "$@" >"$d/said" 2>&1; echo $? >"$d/rc.new"; mv "$d/rc.new" "$d/rc"' sh "$answer" "$@" \
    </dev/null >/dev/null 2>&1 8>&- 9>&- &
  while [ ! -e "$answer/rc" ] && [ "$ticks" -gt 0 ]; do sleep 0.1; ticks=$((ticks - 1)); done
  # Nobody comes back for what it will say: a process that ends later finds no folder, which harms nothing.
  [ -e "$answer/rc" ] || { rm -rf -- "$answer"; return 124; }
  cat "$answer/said"
  status=$(cat "$answer/rc")
  rm -rf -- "$answer"
  return "$status"
}

# While an unbind waits for a user, the kernel holds the device's lock: even reading its override would wait with it.
override() { # BDF: its driver_override, or nothing; 124 when the device is locked
  d=$(apart 3 cat "$pci/devices/$1/driver_override") || return $?
  [ "$d" = "(null)" ] || printf '%s' "$d"
}

set_override() { # BDF DRIVER: "" clears it (a newline does)
  apart 5 sh -c 'printf "%s\n" "$2" >"$1"' sh "$pci/devices/$1/driver_override" "$2"
}

# The kernel takes the driver's link away first and asks the driver after that: only the end of the write tells.
unbind() { # BDF SECONDS: 0 when it has no driver any more
  [ -n "$(now "$1")" ] || return 0
  apart "$2" sh -c 'printf %s "$1" >"$2"' sh "$1" "$pci/devices/$1/driver/unbind"
  [ $? != 124 ] && [ -z "$(now "$1")" ]
}

# The override outranks every id that a driver was told to take, dynamic ones of an earlier VM start included. Left behind
# it would keep a virtual machine from taking the function.
give() { # BDF DRIVER SECONDS [OVERRIDE-TO-LEAVE]: 0 when it has that driver
  [ "$(now "$1")" != "$2" ] || return 0
  set_override "$1" "$2"
  apart "$3" sh -c 'printf %s "$1" >"$2"' sh "$1" "$pci/drivers_probe"
  set_override "$1" "${4:-}"
  [ "$(now "$1")" = "$2" ]
}

module_of() { # DRIVER: the module that brings it
  case $1 in xhci_hcd) echo xhci_pci ;; nvidia-gpu) echo i2c_nvidia_gpu ;; *) echo "$1" ;; esac
}

who() { # stdin: /proc/PID/fd/N FILE lines -> "pid PID COMMAND has FILE open"
  while read -r link file; do
    pid=${link#/proc/}; pid=${pid%%/*}
    [ "$pid" != $$ ] || continue
    command=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | cut -d' ' -f1-5 | cut -c1-100)
    command=${command% }
    case $file in anon_inode:*) file='a VFIO device (which one cannot be told)' ;; esac
    printf 'pid %s (%s) has %s open\n' "$pid" "${command:-$(cat "/proc/$pid/comm" 2>/dev/null)}" "$file"
  done | sort -u
}

# By the names of device files, not by fuser, which may be missing. Nothing is opened and no file system is asked.
openers() { # BDF: who has a device file of it open, one a line
  group=$(readlink "$pci/devices/$1/iommu_group"); group=${group##*/}
  minor=$(sed -n 's/^Device Minor:[[:space:]]*//p' "/proc/driver/nvidia/gpus/$1/information" 2>/dev/null)
  names=$(find "$pci/devices/$1/" -mindepth 2 -name uevent -exec sed -n 's/^DEVNAME=//p' {} + 2>/dev/null)
  set -- "$1" -false
  [ -z "$group" ] || set -- "$@" -o -lname "*/vfio/$group" -o -lname "*/vfio/noiommu-$group"
  [ -z "$minor" ] || set -- "$@" -o -lname "*/nvidia$minor"
  for name in $names; do set -- "$@" -o -lname "*/$name"; done
  function=$1; shift
  find /proc/[0-9]*/fd -maxdepth 1 -type l \( "$@" \) -printf '%p %l\n' 2>/dev/null | who
  case $(now "$function") in *vfio*) strangers ;; esac
}

# Who closed the group's file and kept the device: it cannot be told which device, so it counts as this one.
strangers() {
  find /proc/[0-9]*/fd -maxdepth 1 -type l -lname 'anon_inode:*vfio-device*' -printf '%p %l\n' 2>/dev/null |
    while read -r link file; do
      find "${link%/*}" -maxdepth 1 -type l \( -lname '*/vfio/[0-9]*' -o -lname '*/vfio/devices/*' \) 2>/dev/null |
        grep -q . || printf '%s %s\n' "$link" "$file"
    done | who
}
