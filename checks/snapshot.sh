# The snapshot: one fused look at a machine, in one round trip, changing nothing.
#
# usage: sh snapshot.sh REQUEST...     with ROOT="" for a live machine or ROOT=<recorded tree>
# Requests: file:PATH  sha:PATH  stat:PATH  link:PATH  dir:PATH  glob:PATTERN  tool:NAME  cmd:NAME:COMMAND  pci:
# Prints one line per section, "S kind path length base64", and "E count" at the end; a file that is there and
# cannot be read gives "X kind path length base64-of-the-reason". What is absent gives "A kind path".
# In a recorded tree a command is not run: its output is read from .kpro/cmd/NAME.out and NAME.rc.
ROOT=${ROOT-}
LC_ALL=C
export LC_ALL
count=0
limit=1048577

put() { # mark kind path; the data comes on stdin
  b64=$(head -c "$limit" | base64 -w0)
  case $3 in
    *[!A-Za-z0-9._/:@+,=~-]*) name=b64:$(printf %s "$3" | base64 -w0) ;;
    *) name=$3 ;;
  esac
  printf '%s %s %s %s %s\n' "$1" "$2" "$name" "${#b64}" "$b64"
  count=$((count + 1))
}

absent() {
  put A "$1" "$2" </dev/null
}

reason() {
  if [ -d "$ROOT$2" ]; then why="is a folder"; else why="cannot be read"; fi
  put X "$1" "$2" <<END
$why
END
}

file() {
  if [ ! -e "$ROOT$1" ]; then absent file "$1"
  elif [ -d "$ROOT$1" ] || ! head -c 0 <"$ROOT$1" 2>/dev/null; then reason file "$1"
  else put S file "$1" <"$ROOT$1"
  fi
}

sha() {
  if [ ! -e "$ROOT$1" ]; then absent sha "$1"
  elif sum=$(sha256sum 2>/dev/null <"$ROOT$1"); then put S sha "$1" <<END
${sum%% *}
END
  else reason sha "$1"
  fi
}

status() {
  if [ ! -e "$ROOT$1" ] && [ ! -L "$ROOT$1" ]; then absent stat "$1"
  else put S stat "$1" <<END
$(stat -c '%a %u %g %s %F' "$ROOT$1" 2>&1)
END
  fi
}

link() {
  if [ ! -L "$ROOT$1" ]; then absent link "$1"
  else put S link "$1" <<END
$(readlink "$ROOT$1")
END
  fi
}

folder() {
  if [ ! -e "$ROOT$1" ]; then absent dir "$1"
  elif [ ! -d "$ROOT$1" ] || [ ! -r "$ROOT$1" ]; then put X dir "$1" <<END
is no folder that can be read
END
  else
    # shellcheck disable=SC2012
    put S dir "$1" <<END
$(ls -1A "$ROOT$1")
END
  fi
}

tool() {
  if [ -n "$ROOT" ]; then
    if [ ! -e "$ROOT/.kpro/cmd/tools.out" ]; then put X tool "$1" <<END
the recorded tree has no .kpro/cmd/tools.out
END
    elif grep -qx "$1" "$ROOT/.kpro/cmd/tools.out"; then put S tool "$1" <<END
recorded
END
    else absent tool "$1"
    fi
  elif path=$(command -v "$1" 2>/dev/null); then put S tool "$1" <<END
$path
END
  else absent tool "$1"
  fi
}

cmd() { # NAME COMMAND
  if [ -n "$ROOT" ]; then
    if [ ! -e "$ROOT/.kpro/cmd/$1.out" ]; then put X cmd "$1" <<END
the recorded tree has no .kpro/cmd/$1.out
END
      return
    fi
    rc=0
    [ ! -e "$ROOT/.kpro/cmd/$1.rc" ] || read -r rc <"$ROOT/.kpro/cmd/$1.rc"
    put S cmd "$1" <"$ROOT/.kpro/cmd/$1.out"
  else
    said=$(sh -c "$2" 2>&1 </dev/null)
    rc=$?
    put S cmd "$1" <<END
$said
END
  fi
  put S rc "$1" <<END
$rc
END
}

value() { # prints the first line of a small file, nothing when it is not there
  line=
  [ ! -r "$1" ] || read -r line <"$1" || :
  printf %s "$line"
}

name_of_link() {
  target=$(readlink "$1" 2>/dev/null) || return 0
  printf %s "${target##*/}"
}

pci() {
  if [ ! -d "$ROOT/sys/bus/pci/devices" ]; then absent pci /sys/bus/pci/devices; return; fi
  put S pci /sys/bus/pci/devices </dev/null
  for device in "$ROOT"/sys/bus/pci/devices/*; do
    [ "$(value "$device/vendor")" = 0x10de ] || continue
    put S pci "${device##*/}" <<END
vendor=$(value "$device/vendor")
device=$(value "$device/device")
class=$(value "$device/class")
driver=$(name_of_link "$device/driver")
group=$(name_of_link "$device/iommu_group")
override=$(value "$device/driver_override")
END
  done
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
    glob)
      for match in "$ROOT"$what; do
        [ ! -e "$match" ] || file "${match#"$ROOT"}"
      done ;;
    tool) tool "$what" ;;
    cmd) cmd "${what%%:*}" "${what#*:}" ;;
    pci) pci ;;
    *) printf 'unknown request %s\n' "$kind" >&2; exit 2 ;;
  esac
done
printf 'E %s\n' "$count"
