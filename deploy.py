"""The runbook: from a machine as it is to a service that answers.

pyinfra inventories/kpro5.py deploy.py                       shows the plan, asks, does it
pyinfra inventories/kpro5.py deploy.py --dry                 shows the plan
pyinfra inventories/kpro5.py deploy.py --data phases=install,configure
pyinfra inventories/kpro5.py deploy.py --data reboot=allowed  reboots where that is needed
"""

from provision import chain

# install: the metal
chain.inspect()  # 1
chain.release()  # 2
chain.driver()  # 3
chain.reboot()  # 4
chain.device_nodes()  # 5

# configure: the container and what is in it
chain.container()  # 6
chain.user_space()  # 7
chain.stack()  # 8

# activate: proof, then the cut-over
chain.gate()  # 9
chain.service()  # 10
