import torch
import torch.distributed as dist


class P2PCommunicator:
    """A message forward has the tag 0, one backward 1: between two ranks each kind is in order."""

    def __init__(self, pp_group, config):
        self.group, self.config = pp_group, config
        self.next = (pp_group.rank() + 1) % pp_group.size()
        self.prev = (pp_group.rank() - 1) % pp_group.size()

    def _communicate(self, *, tensor_send_next, tensor_send_prev, recv_prev, recv_next,
                     tensor_shape, wait_on_reqs=True):
        works, received = {}, {"recv_prev": None, "recv_next": None}
        for way, tensor, peer, tag in (("send_prev", tensor_send_prev, self.prev, 1),
                                       ("send_next", tensor_send_next, self.next, 0)):
            if tensor is not None:
                works[way] = dist.isend(tensor.detach(), peer, self.group, tag)
        for way, asked, peer, tag in (("recv_prev", recv_prev, self.prev, 0),
                                      ("recv_next", recv_next, self.next, 1)):
            if asked:
                received[way] = torch.empty(tensor_shape, requires_grad=True)
                works[way] = dist.irecv(received[way].detach(), peer, self.group, tag)
        if wait_on_reqs:
            for work in works.values():
                work.wait()
            works = None
        return received["recv_prev"], received["recv_next"], works
