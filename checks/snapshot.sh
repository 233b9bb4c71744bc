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
moved=
asked=
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

# In a recorded tree every link is followed inside the tree, as on the machine itself: it never shows a file of the
# machine that reads it.
inside() { # PATH: sets place, what the path leads to; fails where a link leads round and round
  place=$ROOT$1
  [ -n "$ROOT" ] || return 0
  rest=$1 place=$ROOT hops=40
  while [ -n "$rest" ]; do
    rest=${rest#/}
    part=${rest%%/*}
    case $rest in */*) rest=/${rest#*/} ;; *) rest= ;; esac
    case $part in
      '' | .) ;;
      ..) [ "$place" = "$ROOT" ] || place=${place%/*} ;;
      *)
        if [ ! -L "$place/$part" ]; then place=$place/$part; continue; fi
        hops=$((hops - 1))
        [ $hops != 0 ] || return 1
        goal=$(readlink "$place/$part")
        if [ "$goal$rest" = /dev/null ]; then place=/dev/null; return 0; fi
        case $goal in /*) place=$ROOT ;; esac
        rest=/$goal$rest ;;
    esac
  done
}

shut() { # PATH that is not there: sets closed to the nearest folder above it, where that one cannot be looked into
  closed=$1
  while :; do
    closed=${closed%/*}
    [ -n "$closed" ] || return 1
    inside "$closed" || return 0
    if [ -d "$place" ]; then [ ! -x "$place" ] || return 1; return 0; fi
    [ ! -e "$place" ] || return 0
  done
}

readable() { # PATH: sets place; where it is no file that can be read, says so and fails
  if ! inside "$1"; then unread file "$1" "is a link that leads nowhere"
  elif [ -f "$place" ] && [ -r "$place" ]; then return 0
  elif [ -d "$place" ]; then unread file "$1" "is a folder"
  elif [ -f "$place" ]; then unread file "$1" "cannot be read"
  elif [ -c "$place" ] && [ "$(readlink -f "$place")" = /dev/null ]; then text file "$1" ''
  elif [ -e "$place" ]; then unread file "$1" "is no regular file"
  elif [ -n "$ROOT" ] && [ -L "$ROOT$1" ]; then unread file "$1" "is a link to what the tree does not have"
  elif shut "$1"; then unread file "$1" "cannot be looked for: $closed"
  else absent file "$1"
  fi
  return 1
}

file() { # read at once where the name is odd, else with all the others
  readable "$1" || return 0
  case $place,$1 in
    "$ROOT$1",*[!A-Za-z0-9._/:@+,=~-]*) bytes file "$1" <"$place" ;;
    "$ROOT$1",*) case "$files " in *" .$1 "*) ;; *) files="$files .$1" ;; esac ;;
    *) bytes file "$1" <"$place" ;;
  esac
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
  if [ -n "$ROOT" ] && inside "/.kpro/sha$1" && [ -f "$place" ]; then text sha "$1" "$(cat "$place")"
  elif ! inside "$1"; then unread sha "$1" "is a link that leads nowhere"
  elif [ ! -e "$place" ]; then absent sha "$1"
  elif [ -f "$place" ] && sum=$(sha256sum 2>/dev/null <"$place"); then text sha "$1" "${sum%% *}"
  else unread sha "$1" "cannot be read"
  fi
}

status() {
  if [ -n "$ROOT" ] && inside "/.kpro/stat$1" && [ -f "$place" ]; then text stat "$1" "$(cat "$place")"
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
  if ! inside "$1"; then unread dir "$1" "is a link that leads nowhere"
  elif [ ! -e "$place" ]; then absent dir "$1"
  elif [ ! -d "$place" ] || [ ! -r "$place" ]; then unread dir "$1" "is no folder that can be read"
  else
    # shellcheck disable=SC2012
    text dir "$1" "$(ls -1A "$place")"
  fi
}

matches() { # PATTERN COMMAND...: COMMAND PATH for all that is there; for a folder that cannot be listed, the pattern is no file
  pattern=$1
  shift
  # The twin of /usr/lib is looked at where it is another folder.
  case $pattern in /lib/modules/*) ;; /lib/*) [ ! -L "$ROOT/lib" ] || return 0 ;; esac
  base=${pattern%%[*?]*}
  base=${base%/*}
  tail=${pattern#"$base"}
  if ! inside "$base" || { [ -e "$place" ] && [ ! -d "$place" ]; }; then
    unread file "$pattern" "$base is no folder"
    return
  fi
  if [ ! -e "$place" ]; then
    if shut "$base"; then unread file "$pattern" "$closed cannot be looked into"; fi
    return
  fi
  at=$place
  for folder in "$at"${tail%/*}; do
    [ ! -d "$folder" ] || { [ -r "$folder" ] && [ -x "$folder" ]; } ||
      unread file "$base${folder#"$at"}/${tail##*/}" "the folder cannot be listed"
  done
  for match in "$at"$tail; do
    [ ! -e "$match" ] && [ ! -L "$match" ] || "$@" "$base${match#"$at"}"
  done
}

# A folder in place of a file is what a record has for a file that could not be read. Where files have no common ending,
# folders stand among them, and only an empty one of a tree can be that.
is_other() { # PATH: no file, and nothing that is to be told
  inside "$1" && [ -d "$place" ] || return 1
  case ${pattern##*/} in *.*) return 1 ;; esac
  [ -n "$ROOT" ] || return 0
  for inner in "$place"/*; do [ ! -e "$inner" ] || return 0; done
  return 1
}

glob() { # every file, and the word "link" for one that is a symbolic link
  matches "$1" one_of_glob
}

one_of_glob() {
  ! is_other "$1" || return 0
  file "$1"
  # One that leads to nothing is read by nobody.
  if [ -L "$ROOT$1" ] && inside "$1" && [ -e "$place" ]; then text linked "$1" link; fi
}

listed() { # PATTERNS: sets list, the files that can be read, a line each; says what cannot be
  list=
  set -f
  for one in $1; do
    set +f
    matches "$one" one_of_list
  done
  set +f
}

one_of_list() {
  ! is_other "$1" || return 0
  # Most files are what they seem: only in a tree is it to be asked what a link leads to.
  if [ -z "$ROOT" ] && [ -f "$1" ] && [ -r "$1" ]; then list="$list$1$newline"
  elif readable "$1"; then list="$list$place$newline"; [ "$place" = "$ROOT$1" ] || moved="$moved$place $1$newline"
  fi
}

with() { # EXPRESSION PATTERNS [OPTION]: a fork for all of them, nothing is sent of files that do not matter
  listed "$2"
  search "$1" "${3-}"
  each_found file
}

search() { # EXPRESSION OPTION: sets found, the paths of those of $list that hold it
  expression=$1 option=$2
  found=
  [ -n "$list" ] || return 0
  set -f
  kept=$IFS
  IFS=$newline
  # shellcheck disable=SC2086
  set -- $list
  IFS=$kept
  set +f
  # shellcheck disable=SC2086
  found=$(grep -slE $option -- "$expression" "$@")
}

each_found() { # COMMAND...: for each path of $found
  set -f
  kept=$IFS
  IFS=$newline
  for match in $found; do
    IFS=$kept
    match=${match#"$ROOT"}
    # What was found under another name is called as it was asked for.
    case $newline$moved in *"$newline$ROOT$match "*) match=${moved#*"$ROOT$match "} match=${match%%"$newline"*} ;; esac
    "$@" "$match"
  done
  IFS=$kept
  set +f
}

units() { # EXPRESSION: what the start of the machine runs, where it holds it or calls a script that does; the scripts too
  wanted=$1
  starters='/etc/systemd/system/*.service /etc/systemd/system/*.d/*.conf /usr/local/lib/systemd/system/*.service'
  starters="$starters /etc/rc.local /etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/* /etc/init.d/*"
  starters="$starters /etc/tmpfiles.d/*.conf /etc/sysfs.conf /etc/sysfs.d/*.conf /etc/udev/rules.d/*.rules"
  listed "$starters"
  starting=$list called=' ' names=$wanted
  set -f
  kept=$IFS
  IFS=$newline
  # shellcheck disable=SC2086
  set -- $starting
  IFS=$kept
  words=
  [ $# = 0 ] || words=$(grep -hs / "$@")
  for word in $words; do
    word=/${word#*/} word=${word%%[\"\';,]*}
    case $word in /usr/bin/* | /bin/* | /sbin/* | /usr/sbin/* | /lib/* | /usr/lib/* | /dev/* | /proc/* | /sys/*) continue ;; esac
    case $called in *" $word "*) continue ;; esac
    inside "$word" || continue
    if [ -f "$place" ]; then called="$called$word "
    else
      # A script whose very name tells of it is to be looked at.
      case $word in */*vfio* | */*bind* | */*passthr*) called="$called$word " ;; esac
    fi
  done
  list=
  for word in $called; do
    if readable "$word"; then
      list="$list$place$newline"
      [ "$place" = "$ROOT$word" ] || moved="$moved$place $word$newline"
    else named_too "$word"
    fi
  done
  set +f
  search "$wanted" -I
  each_found file
  each_found named_too
  list=$starting
  search "$names" ''
  each_found file
  something=$found
  # Of a package only what binds by itself: its scripts are its own.
  with "$wanted" '/usr/lib/systemd/system/*.service /lib/systemd/system/*.service'
  [ -n "$something$found" ] || return 0
  # A unit of the operator's takes the place of a package's of its name.
  [ -z "$found" ] || names '/etc/systemd/system/*.service'
  for pattern in wants requires; do names "/etc/systemd/system/*.$pattern/*"; done
}

named_too() { # a script's name, where it can stand in an expression
  case ${1##*/} in *[!A-Za-z0-9._-]*) names=. ;; *) names="$names|${1##*/}" ;; esac
}

names() { # links of a recorded tree may lead to what lies on the machine alone
  found=
  matches "$1" one_of_names
  text names "$1" "${found%"$newline"}"
}

one_of_names() {
  [ -z "$ROOT" ] && [ ! -e "$1" ] || found="$found$1$newline"
}

tool() {
  if [ -n "$ROOT" ]; then
    if [ ! -e "$ROOT/.kpro/cmd/tools.out" ]; then
      unread tool "$1" "the recorded tree has no .kpro/cmd/tools.out"
    elif ! readable /.kpro/cmd/tools.out; then unread tool "$1" "the list of tools cannot be read"
    elif grep -qx "$1" "$place"; then text tool "$1" recorded
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
  elif inside "/.kpro/cmd/$1.out" && [ -f "$place" ] && [ -r "$place" ]; then
    bytes cmd "$1" <"$place"
    value "$ROOT/.kpro/cmd/$1.rc"
    text rc "$1" "${line:-0}"
  elif [ -e "$ROOT/.kpro/cmd/$1.out" ]; then unread cmd "$1" "its record cannot be read"
  else unread cmd "$1" "the recorded tree has no .kpro/cmd/$1.out"
  fi
}

value() { # sets line: the first line of a small file, empty when it is not there
  line=
  if [ -n "$ROOT" ]; then
    # The values of one folder are read one after another.
    [ "${1%/*}" = "$asked" ] || { asked=${1%/*} held=; inside "${asked#"$ROOT"}" && held=$place; }
    set -- "$held/${1##*/}"
    [ ! -L "$1" ] || { inside "${1#"$ROOT"}" && set -- "$place"; } || return 0
    [ -f "$1" ] || return 0
  fi
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
      { [ -f "$bdf/config" ] && od -An -v -tx1 -N4 "$bdf/config" 2>/dev/null; } || echo
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
  [ ! -f "$device/resource" ] || [ ! -r "$device/resource" ] || { read -r line && read -r line; } <"$device/resource" || :
  seen="${seen}bar1=$line$newline"
  line=
  for place in "$device"/vfio-dev/*; do [ ! -e "$place" ] || line=${place##*/}; done
  text pci "$1" "${seen}vfio_dev=$line"
}

vms() { # definitions of virtual machines that name PCI devices, and what shows that one of them is at work
  if [ -d "$ROOT/etc/pve" ]; then proxmox "$1"; else absent vms /etc/pve; fi
  [ -d "$ROOT/etc/libvirt/qemu" ] || return 0
  with 'hostdev|vfio-pci' '/etc/libvirt/qemu/*.xml'
  search '</domain>' -L
  each_found file_of_some_size
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
  inside /etc/pve/storage.cfg || place=
  [ ! -f "$place" ] || [ ! -r "$place" ] || while read -r key line; do
    [ "$key" != path ] || snippets="$snippets $line/snippets/*"
  done <"$place"
  with "$1" "$snippets" -I
  pattern='/etc/pve/nodes/*/qemu-server/*.conf'
  [ -n "$nodes" ] || pattern='/etc/pve/qemu-server/*.conf'
  with '^hostpci|vfio-pci|^hookscript' "$pattern"
  each_found of_machine
  # What is no text at all may say anything.
  search '' -LI
  each_found file_of_some_size
  listed_machines
  reserved=/run/qemu-server/pci-id-reservations
  file "$reserved"
  inside "$reserved" && [ -f "$place" ] && [ -r "$place" ] || return 0
  from=$place
  cmd date 'date +%s'
  while read -r _ _ line; do case $line in pid:*) process "${line#pid:}" ;; esac; done <"$from"
}

file_of_some_size() { # an empty one says nothing
  inside "$1" || return 0
  [ ! -s "$place" ] || file "$1"
}

listed_machines() { # a tree may tell of a machine whose definition it lacks
  [ -n "$ROOT" ] && [ -e "$ROOT/.kpro/cmd/qm-list.out" ] || return 0
  cmd qm-list
  names '/etc/pve/nodes/*/qemu-server/*.conf'
  names '/etc/pve/qemu-server/*.conf'
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
