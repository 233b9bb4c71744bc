# NVIDIA's modules go and come: what load and undo have in common. Needs pci.sh.
driver_now() { # version and flavour of the loaded module, or nothing
  line=$(sed -n 1p /proc/driver/nvidia/version 2>/dev/null)
  number=$(printf '%s\n' "$line" | sed -n 's/^NVRM version:.*[[:space:]]\([0-9]\{3\}\.[0-9][0-9.]*\)[[:space:]].*/\1/p')
  [ -n "$number" ] || return 0
  case $line in *'Open Kernel Module'*) echo "$number open" ;; *) echo "$number proprietary" ;; esac
}

# They hold every GPU and serve nobody by themselves.
resting=
daemons_off() {
  for daemon in {{ daemons | join(" ") }}; do
    [ "$(systemctl is-active "$daemon" 2>/dev/null)" = active ] || continue
    systemctl stop "$daemon" || echo "$daemon did not stop"
    resting="$daemon $resting"
  done
}
daemons_on() {
  for daemon in $resting; do systemctl start "$daemon" || echo "$daemon did not start again: systemctl status $daemon"; done
  resting=
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
