"""An HAProxy's socket in memory: it answers as HAProxy 2.6 of Debian 12 does, to what a migration asks and no more."""

from __future__ import annotations

from dataclasses import dataclass, field

from provision.host.transport import Completed
from provision.migrate.traffic.haproxy import Proxy
from provision.spec import HAProxy

STATES = (
    "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight "
    "srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state "
    "bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr "
    "srv_agent_addr srv_agent_port\n"
)
STATS = (
    "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,act,"
    "bck,check_status,check_code,last_chk,cookie,mode,\n"
)
SPEC = HAProxy(backend="chat", source="kpro6", target="kpro5", deadline_seconds=10)


@dataclass
class Line:
    """A server. ``grows``: how many requests come to it between two looks, whatever is set."""

    name: str
    address: str = "192.0.2.6:8000"
    op: int = 2
    admin: int = 0
    check: int = 6
    backup: int = 0
    stot: int = 0
    grows: int = 0
    scur: int = 0


@dataclass
class Socket:
    """The way to it; ``said`` are the commands that changed something. ``refuses``: the answer to them."""

    servers: dict[str, list[Line]] = field(
        default_factory=lambda: {
            "chat": [Line("kpro6"), Line("kpro5", "192.0.2.5:8000", op=0, backup=1)],
        }
    )
    mode: str = "http"
    cookie: str = ""
    level: str = "admin"
    info: str = "Name: HAProxy\n"
    refuses: str = ""
    said: list[str] = field(default_factory=list)
    time: float = 0.0

    def line(self, name: str) -> Line:
        return next(line for line in self.servers["chat"] if line.name == name)

    def __call__(self, script: str, stdin: bytes, seconds: float) -> Completed:
        answers = [self._answer(command).encode() for command in stdin.decode().splitlines()]
        return Completed(0, b"".join(b"%d\n%s" % (len(text), text) for text in answers), b"")

    def _answer(self, command: str) -> str:
        if command == "show cli level":
            return f"{self.level}\n\n"
        if command == "show info":
            return self.info
        if command == "show servers state":
            return STATES + "".join(
                f"3 {be} 1 {s.name} {s.address.partition(':')[0]} {s.op} {s.admin} 1 1 9 8 2 0 {s.check} 0 0 0 - "
                f"{s.address.partition(':')[2]} - 0 0 - - 0\n"
                for be, servers in self.servers.items()
                for s in servers
            )
        if command == "show stat":
            return self._stats()
        assert command.startswith("set server chat/")
        self.said.append(command)
        if self.refuses:
            return self.refuses
        name, _, state = command.removeprefix("set server chat/").partition(" state ")
        server = self.line(name)
        server.admin = {"ready": server.admin & ~9, "drain": (server.admin & ~1) | 8}[state]
        return "\n"

    def _stats(self) -> str:
        rows = ""
        for be, servers in self.servers.items():
            for s in servers:
                s.stot += s.grows
                health = ",,," if s.op else "L4CON,,Connection refused,"
                rows += f"{be},{s.name},0,0,{s.scur},0,,{s.stot},0,0,,0,,0,0,0,0,UP,1,1,{s.backup},{health},"
                rows += f"{self.mode},\n"
            rows += f"{be},BACKEND,0,0,0,0,9,0,0,0,0,0,,0,0,0,0,UP,1,1,0,,,,{self.cookie},{self.mode},\n"
        return STATS + rows

    def proxy(self, spec: HAProxy = SPEC) -> Proxy:
        def sleep(seconds: float) -> None:
            self.time += seconds

        return Proxy(spec, self, "proxy1", lambda: self.time, sleep)
