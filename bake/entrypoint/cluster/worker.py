"""A worker of a cluster: it reports to the head, joins Ray when told to, and ends when the training or the head does.

Left to itself, Ray on a worker notices a head that is gone after 62 s, and prints hundreds of lines (Ray 2.60). The
connection to the head tells at once, and with the training's exit code.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bake.entrypoint.cluster.contact import find_head
from bake.entrypoint.cluster.meeting import Meeting, split_address
from bake.entrypoint.cluster.ray_node import GRACE, RayNode, ray_environment
from bake.entrypoint.fault import printable
from bake.entrypoint.process import Watch
from bake.errors import ClusterError, ModelFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bake.entrypoint.cluster import Report, Tell
    from bake.entrypoint.cluster.contact import Contact
    from bake.entrypoint.cluster.wire import Notice

_HEADLESS = 1.0
"""Seconds. Without its head Ray would wait for an answer that cannot come."""


def run_worker(
    head: str, *, report: Report, environ: Mapping[str, str], tell: Tell, meeting: Meeting | None = None
) -> int:
    """Serve a training that HOST or HOST:PORT leads, PORT being Ray's: the training's own exit code.

    Raises ModelFault where the report has faults, once the head knows of them; ClusterError where the head does not
    answer, refuses this node or is lost. Ray has ended on this node then.
    """
    meeting = meeting or Meeting()
    host, port = split_address(head, meeting)
    while True:
        with find_head(host, port, report=report, meeting=meeting, tell=tell) as contact:
            if report.faults:
                raise ModelFault("the models of this node are at fault", hint=f"the head {contact} was told")
            with Watch() as watch:
                contact.watched_by(watch)
                notice = _await_start(contact, watch, tell=tell)
                if notice is not None:
                    return _serve(contact, watch, notice, environ=environ, meeting=meeting, tell=tell)
        tell(f"cluster: the head {host} has gone before the training began; looking for it again")
        time.sleep(1)


def _await_start(contact: Contact, watch: Watch, *, tell: Tell) -> Notice | None:
    """The word to go; None where the head has gone, as one does that is started again."""
    while (notice := contact.next(watch)) is not None and notice.say != "go":
        if notice.say == "refused":
            raise _refused(contact, notice)
        tell(f"cluster: reported to the head; {_text(notice)} there")
    return notice


def _serve(
    contact: Contact, watch: Watch, start: Notice, *, environ: Mapping[str, str], meeting: Meeting, tell: Tell
) -> int:
    tell(f"cluster: joining Ray at {start.address}")
    address = meeting.node_ip or contact.own_address
    ray = RayNode.worker(
        watch,
        ray_address=start.address,
        address=address,
        environ=ray_environment(environ, address=address),
        meeting=meeting,
    )
    try:
        notice = contact.next(watch, program=ray.program)
    finally:
        ray.stop(grace=_HEADLESS if contact.lost else GRACE)
    if notice is not None and notice.say == "ended":
        tell(f"cluster: the training ended with code {notice.code}, and so does this worker")
        return notice.code
    if notice is not None:
        raise _refused(contact, notice)
    if contact.lost:
        raise ClusterError(
            f"the head {contact} has gone: its connection ended without a word", hint="the head's own log says why"
        )
    ray.tell_end(tell)
    raise ClusterError(
        f"Ray on this node ended with code {ray.program.code}, and the training goes on without it",
        hint="the lines of Ray's own above say why",
    )


def _refused(contact: Contact, notice: Notice) -> ClusterError:
    return ClusterError(f"no training with the head {contact}: {_text(notice)}")


def _text(notice: Notice) -> str:
    return "; ".join(map(printable, notice.text))
