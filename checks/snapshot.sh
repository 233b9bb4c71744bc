# The snapshot: one fused look at a machine, in one round trip, changing nothing.
#
# usage: sh snapshot.sh REQUEST...     with ROOT="" for a live machine or ROOT=<recorded tree>
# Requests: file:PATH  glob:PATTERN  with:REGEX:PATTERNS (files that hold it)  names:PATTERN (of what is there)
#           sha:PATH  stat:PATH  link:PATH  dir:PATH  tool:NAME  cmd:NAME:COMMAND
#           pci:  vms:REGEX  units:REGEX (what binds functions when the machine, or a virtual one, starts)
# Prints sections and at last "E count". A section is one of
#   T kind path             there; its text follows, one line after a "|" for each of its lines
#   S kind path base64      there; bytes that are no plain text
#   X kind path reason      there, and cannot be read
#   A kind path             absent
#   F base64 exit-code path...     files, with "==> .PATH <==" before the bytes of each, as head prints them
# A process costs milliseconds on a small machine: one head reads all files, the shell itself does what it can.
# In a recorded tree a command is not run: its output is read from .kpro/cmd/NAME.out and NAME.rc.
ROOT=${ROOT-}
LC_ALL=C
export LC_ALL
count=0
files=
limit=1048577
newline='
'
tab='	'
plain="$newline$tab -~"

named() { # sets name: the path as one word
  case $1 in
    '' | *[!A-Za-z0-9._/:@+,=~-]*) name=b64:$(printf %s "$1" | base64 -w0) ;;
    *) name=$1 ;;
  esac
  count=$((count + 1))
}

bytes() { # kind path; the data comes on stdin
  named "$2"
  printf 'S %s %s ' "$1" "$name"
  head -c "$limit" | base64 -w0
  echo
}

text() { # kind path text; what is long goes faster through base64 than line by line
  case ${#3},$3 in
    [0-9][0-9][0-9][0-9]*,* | *[!$plain]*)
      printf '%s\n' "$3" | bytes "$1" "$2"
      count=$((count + 1)) ;;
    *)
      named "$2"
      printf 'T %s %s\n' "$1" "$name"
      while IFS= read -r row; do printf '|%s\n' "$row"; done <<END
$3
END
      ;;
  esac
}

absent() { named "$2"; printf 'A %s %s\n' "$1" "$name"; }
unread() { named "$2"; printf 'X %s %s %s\n' "$1" "$name" "$3"; }

file() { # read at once where the name is odd, else with all the others
  if [ ! -e "$ROOT$1" ]; then absent file "$1"
  elif [ -d "$ROOT$1" ]; then unread file "$1" "is a folder"
  elif [ ! -r "$ROOT$1" ]; then unread file "$1" "cannot be read"
  else
    case $1 in
      *[!A-Za-z0-9._/:@+,=~-]*) bytes file "$1" <"$ROOT$1" ;;
      *) case "$files " in *" .$1 "*) ;; *) files="$files .$1" ;; esac ;;
    esac
  fi
}

read_files() { # paths with a dot before them; when one of them cannot be read, each is tried alone
  count=$((count + 1))
  printf 'F '
  exec 4>&1
  code=$({ { cd "$ROOT/" && head -v -c "$limit" -- "$@" 2>/dev/null; echo $? >&3; } | base64 -w0 >&4; } 3>&1)
  exec 4>&-
  printf ' %s %s\n' "$code" "$*"
  [ "$code" != 0 ] || return 0
  if [ $# = 1 ]; then unread file "${1#.}" "cannot be read"; return; fi
  for one in "$@"; do read_files "$one"; done
}

sha() { # a recorded tree may have the digest in place of the file
  if [ -n "$ROOT" ] && [ -e "$ROOT/.kpro/sha$1" ]; then text sha "$1" "$(cat "$ROOT/.kpro/sha$1")"
  elif [ ! -e "$ROOT$1" ]; then absent sha "$1"
  elif sum=$(sha256sum 2>/dev/null <"$ROOT$1"); then text sha "$1" "${sum%% *}"
  else unread sha "$1" "cannot be read"
  fi
}

status() {
  if [ -n "$ROOT" ] && [ -e "$ROOT/.kpro/stat$1" ]; then text stat "$1" "$(cat "$ROOT/.kpro/stat$1")"
  elif [ ! -e "$ROOT$1" ] && [ ! -L "$ROOT$1" ]; then absent stat "$1"
  else text stat "$1" "$(stat -c '%a %u %g %s %F' "$ROOT$1" 2>&1)"
  fi
}

link() {
  if [ ! -L "$ROOT$1" ]; then absent link "$1"
  else text link "$1" "$(readlink "$ROOT$1")"
  fi
}

folder() {
  if [ ! -e "$ROOT$1" ]; then absent dir "$1"
  elif [ ! -d "$ROOT$1" ] || [ ! -r "$ROOT$1" ]; then unread dir "$1" "is no folder that can be read"
  else
    # shellcheck disable=SC2012
    text dir "$1" "$(ls -1A "$ROOT$1")"
  fi
}

glob() { # every file, and the word "link" for one that is a symbolic link
  for match in "$ROOT"$1; do
    [ -f "$match" ] || continue
    file "${match#"$ROOT"}"
    [ ! -L "$match" ] || text linked "${match#"$ROOT"}" link
  done
}

with() { # EXPRESSION PATTERNS [OPTION]: a fork for all of them, nothing is sent of files that do not matter
  expression=$1 option=${3-}
  set -f
  # shellcheck disable=SC2086
  set -- $2
  set +f
  for pattern; do
    shift
    for match in "$ROOT"$pattern; do [ ! -f "$match" ] || set -- "$@" "$match"; done
  done
  found=
  # shellcheck disable=SC2086
  [ $# = 0 ] || found=$(grep -slE $option -- "$expression" "$@")
  each_found file
}

each_found() { # COMMAND...: for each path of $found
  set -f
  kept=$IFS
  IFS=$newline
  for match in $found; do
    IFS=$kept
    "$@" "${match#"$ROOT"}"
  done
  IFS=$kept
  set +f
}

units() { # EXPRESSION: what the start of the machine runs, where it holds it or calls a script that does; the scripts too
  wanted=$1
  starters='/etc/systemd/system/*.service /etc/systemd/system/*.d/*.conf /usr/local/lib/systemd/system/*.service'
  starters="$starters /etc/rc.local /etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/* /etc/init.d/*"
  starters="$starters /etc/tmpfiles.d/*.conf /etc/sysfs.conf /etc/sysfs.d/*.conf"
  set -f
  # shellcheck disable=SC2086
  set -- $starters
  set +f
  for pattern; do
    shift
    for match in "$ROOT"$pattern; do [ ! -f "$match" ] || set -- "$@" "$match"; done
  done
  [ $# != 0 ] || return 0
  called=' '
  set -f
  # shellcheck disable=SC2013
  for word in $(grep -hs / "$@"); do
    word=/${word#*/} word=${word%%[\"\';,]*}
    case $word in /usr/bin/* | /bin/* | /sbin/* | /usr/sbin/* | /lib/* | /usr/lib/* | /dev/* | /proc/* | /sys/*) continue ;; esac
    case $called in *" $word "*) ;; *) [ ! -f "$ROOT$word" ] || called="$called$word " ;; esac
  done
  set +f
  with "$wanted" "$called" -I
  names=$wanted
  each_found also_named
  with "$names" "$starters"
  [ -z "$found" ] || for pattern in wants requires; do names "/etc/systemd/system/*.$pattern/*"; done
}

also_named() { # a script's name, where it can stand in an expression
  case ${1##*/} in *[!A-Za-z0-9._-]*) names=. ;; *) names="$names|${1##*/}" ;; esac
}

names() { # links of a recorded tree may lead to what lies on the machine alone
  found=
  for match in "$ROOT"$1; do
    if [ -e "$match" ] || { [ -n "$ROOT" ] && [ -L "$match" ]; }; then found="$found${match#"$ROOT"}$newline"; fi
  done
  text names "$1" "${found%"$newline"}"
}

tool() {
  if [ -n "$ROOT" ]; then
    if [ ! -e "$ROOT/.kpro/cmd/tools.out" ]; then
      unread tool "$1" "the recorded tree has no .kpro/cmd/tools.out"
    elif grep -qx "$1" "$ROOT/.kpro/cmd/tools.out"; then text tool "$1" recorded
    else absent tool "$1"
    fi
    return
  fi
  kept=$IFS
  IFS=:
  for place in $PATH; do
    [ ! -x "$place/$1" ] || [ -d "$place/$1" ] || { IFS=$kept; text tool "$1" "$place/$1"; return; }
  done
  IFS=$kept
  absent tool "$1"
}

cmd() { # NAME COMMAND
  if [ -z "$ROOT" ]; then
    said=$(sh -c "$2" 2>&1 </dev/null)
    text rc "$1" $?
    text cmd "$1" "$said"
  elif [ -e "$ROOT/.kpro/cmd/$1.out" ]; then
    bytes cmd "$1" <"$ROOT/.kpro/cmd/$1.out"
    rc=0
    [ ! -e "$ROOT/.kpro/cmd/$1.rc" ] || read -r rc <"$ROOT/.kpro/cmd/$1.rc"
    text rc "$1" "$rc"
  else unread cmd "$1" "the recorded tree has no .kpro/cmd/$1.out"
  fi
}

value() { # sets line: the first line of a small file, empty when it is not there
  line=
  [ ! -r "$1" ] || read -r line <"$1" 2>/dev/null || :
}

leads_to() { # sets target: the last part of what a link of $links leads to
  target=
  case $links in
    *"$newline$1 "*)
      target=${links#*"$newline$1 "}
      target=${target%%"$newline"*}
      target=${target##*/} ;;
  esac
}

pci() { # the functions of NVIDIA, and what shares an IOMMU group with them
  bus=$ROOT/sys/bus/pci/devices
  if [ ! -d "$bus" ]; then absent pci /sys/bus/pci/devices; return; fi
  displays=
  for place in "$bus"/*/boot_vga; do
    value "$place"
    [ -n "$line" ] || continue
    place=${place%/boot_vga} shown=$line
    value "$place/vendor"
    displays="$displays${place##*/} $line $shown$newline"
  done
  text pci /sys/bus/pci/devices "${displays%"$newline"}"
  links=$newline$(find "$bus"/*/driver "$bus"/*/iommu_group -maxdepth 0 -printf '%p %l\n' 2>/dev/null)$newline
  ours=
  near=
  for device in "$bus"/*; do
    value "$device/vendor"
    [ "$line" = 0x10de ] || continue
    ours="$ours ${device##*/}"
    leads_to "$device/iommu_group"
    [ -n "$target" ] || continue
    for other in "$ROOT/sys/kernel/iommu_groups/$target/devices"/*; do
      case " $near" in *" ${other##*/} "*) ;; *) [ ! -L "$other" ] || near="$near${other##*/} " ;; esac
    done
  done
  # Before power_state: reading the configuration wakes a function that only sleeps.
  heads=
  if [ -n "$ours" ]; then
    heads=$newline$(cd "$bus/" && for bdf in $ours; do
      printf '%s ' "$bdf"
      od -An -v -tx1 -N4 "$bdf/config" 2>/dev/null || echo
    done)$newline
  fi
  unbound=
  for bdf in $ours; do
    leads_to "$bus/$bdf/driver"
    [ -n "$target" ] || unbound="$unbound $bdf"
  done
  # shellcheck disable=SC2086
  read_overrides $unbound
  for bdf in $ours; do of_function "$bdf"; done
  for bdf in $near; do
    case "$ours " in *" $bdf "*) ;; *) of_function "$bdf" ;; esac
  done
}

# While an unbind waits for a user, the kernel has taken the link to the driver away and holds the device's lock: reading
# the override would wait with it, beyond any signal. So where there is no driver, a process apart reads it.
read_overrides() { # BDF...: sets overrides, a line for each that could be read
  overrides=$newline
  [ -z "$ROOT" ] && [ $# != 0 ] || return 0
  place=$(mktemp -d) || return 0
  # shellcheck disable=SC2016
  setsid sh -c 'cd "$1" && bus=$2 && shift 2 || exit
    for bdf; do read -r line <"$bus/$bdf/driver_override" && echo "$bdf $line" >>said; done
    : >done' sh "$place" "$bus" "$@" </dev/null >/dev/null 2>&1 8>&- 9>&- &
  ticks=30
  while [ ! -e "$place/done" ] && [ $ticks != 0 ]; do
    sleep 0.1
    ticks=$((ticks - 1))
  done
  [ ! -e "$place/said" ] || overrides=$newline$(cat "$place/said")$newline
  rm -rf -- "$place"
}

of_function() {
  device=$bus/$1
  seen=
  for key in vendor device class power_state boot_vga; do
    value "$device/$key"
    seen="$seen$key=$line$newline"
  done
  leads_to "$device/driver"
  seen="${seen}driver=$target$newline"
  bound=$target
  leads_to "$device/iommu_group"
  seen="${seen}group=$target$newline"
  case $bound,$ROOT,"$ours " in
    ,,*" $1 "*)
      case $overrides in
        *"$newline$1 "*) line=${overrides#*"$newline$1 "} line=${line%%"$newline"*} ;;
        *) line='?' ;;
      esac ;;
    *) value "$device/driver_override" ;;
  esac
  seen="${seen}driver_override=$line$newline"
  target=
  case $heads in *"$newline$1 "*) target=${heads#*"$newline$1 "} target=${target%%"$newline"*} ;; esac
  seen="${seen}config=$target$newline"
  line=
  [ ! -r "$device/resource" ] || { read -r line && read -r line; } <"$device/resource" || :
  seen="${seen}bar1=$line$newline"
  line=
  for place in "$device"/vfio-dev/*; do [ ! -e "$place" ] || line=${place##*/}; done
  text pci "$1" "${seen}vfio_dev=$line"
}

vms() { # definitions of virtual machines that name PCI devices, and what shows that one of them is at work
  if [ -d "$ROOT/etc/pve" ]; then proxmox "$1"; else absent vms /etc/pve; fi
  [ -d "$ROOT/etc/libvirt/qemu" ] || return 0
  with '<hostdev|hostdev.>' '/etc/libvirt/qemu/*.xml'
  names '/etc/libvirt/qemu/autostart/*'
  names '/run/libvirt/qemu/*.pid'
}

proxmox() {
  nodes=
  for place in "$ROOT"/etc/pve/nodes/*; do [ ! -d "$place" ] || nodes="$nodes${place##*/}$newline"; done
  text vms /etc/pve "${nodes%"$newline"}"
  link /etc/pve/local
  for place in /proc/sys/kernel/hostname /etc/hostname /etc/pve/mapping/pci.cfg /etc/pve/ha/resources.cfg; do
    file "$place"
  done
  node=$(readlink "$ROOT/etc/pve/local") || { value "$ROOT/proc/sys/kernel/hostname"; node=${line%%.*}; }
  node=${node##*/}
  [ -d "$ROOT/etc/pve/nodes/$node" ] || node=
  snippets='/var/lib/vz/snippets/*'
  [ ! -r "$ROOT/etc/pve/storage.cfg" ] || while read -r key line; do
    [ "$key" != path ] || snippets="$snippets $line/snippets/*"
  done <"$ROOT/etc/pve/storage.cfg"
  with "$1" "$snippets" -I
  pattern='/etc/pve/nodes/*/qemu-server/*.conf'
  [ -n "$nodes" ] || pattern='/etc/pve/qemu-server/*.conf'
  with '^hostpci|vfio-pci|^hookscript' "$pattern"
  each_found of_machine
  reserved=/run/qemu-server/pci-id-reservations
  file "$reserved"
  [ -r "$ROOT$reserved" ] || return 0
  cmd date 'date +%s'
  while read -r _ _ line; do case $line in pid:*) process "${line#pid:}" ;; esac; done <"$ROOT$reserved"
}

of_machine() { # PATH of a definition: is it at work?
  vmid=${1##*/} vmid=${vmid%.conf}
  case $vmid in '' | *[!0-9]*) return ;; esac
  of_this_node "$1" || return 0
  cmd "qm-status-$vmid" "qm status $vmid"
  file "/run/qemu-server/$vmid.pid"
  value "$ROOT/run/qemu-server/$vmid.pid"
  process "$line"
}

of_this_node() { # PATH; when the node cannot be told, each may be it
  case $1 in /etc/pve/qemu-server/*) return ;; esac
  target=${1#/etc/pve/nodes/}
  [ -z "$node" ] || [ "$node" = "${target%%/*}" ]
}

process() { # PID: is it there?
  case $1 in '' | *[!0-9]*) ;; *) file "/proc/$1/cmdline" ;; esac
}

for request in "$@"; do
  kind=${request%%:*}
  what=${request#*:}
  case $kind in
    file) file "$what" ;;
    sha) sha "$what" ;;
    stat) status "$what" ;;
    link) link "$what" ;;
    dir) folder "$what" ;;
    glob) glob "$what" ;;
    with) with "${what%%:*}" "${what#*:}" ;;
    units) units "$what" ;;
    names) names "$what" ;;
    tool) tool "$what" ;;
    cmd) cmd "${what%%:*}" "${what#*:}" ;;
    pci) pci ;;
    vms) vms "$what" ;;
    *) printf 'unknown request %s\n' "$kind" >&2; exit 2 ;;
  esac
done
if [ -n "$files" ]; then
  set -f
  # shellcheck disable=SC2086
  read_files $files
fi
printf 'E %s\n' "$count"
