# NVIDIA's modules go and come: what load and undo have in common. Needs pci.sh.
driver_now() { # version and flavour of the loaded module, or nothing
  line=$(sed -n 1p /proc/driver/nvidia/version 2>/dev/null)
  number=$(printf '%s\n' "$line" | sed -n 's/^NVRM version:.*[[:space:]]\([0-9]\{3\}\.[0-9][0-9.]*\)[[:space:]].*/\1/p')
  [ -n "$number" ] || return 0
  case $line in *'Open Kernel Module'*) echo "$number open" ;; *) echo "$number proprietary" ;; esac
}

# They hold every GPU and serve nobody by themselves. Who started them again may be another script than who stopped them.
resting=/run/kpro/daemons
daemons_off() {
  for daemon in {{ daemons | join(" ") }}; do
    [ "$(systemctl is-active "$daemon" 2>/dev/null)" = active ] || continue
    mkdir -p "${resting%/*}" && echo "$daemon" >>"$resting"
    systemctl stop "$daemon" || echo "$daemon did not stop"
  done
}
daemons_on() { # not before a driver is loaded: they would fail
  [ -s "$resting" ] && [ -e /sys/module/nvidia ] || return 0
  for daemon in $(sed '1!G;h;$!d' "$resting"); do
    systemctl reset-failed "$daemon" 2>/dev/null
    systemctl start "$daemon" || echo "$daemon did not start again: systemctl status $daemon"
  done
  rm -f "$resting"
}

holders() { # who has a device file of NVIDIA open, one a line
  find /proc/[0-9]*/fd -maxdepth 1 -type l -lname '/dev/nvidia*' -printf '%p %l\n' 2>/dev/null | who
}

modules_off() { # 0 when none is loaded any more
  for module in {{ modules | join(" ") }}; do
    [ ! -e "/sys/module/$module" ] || apart 30 rmmod "$module" || :
  done
  [ ! -e /sys/module/nvidia ]
}
