# Runs a pipeline schedule: each rank takes the actions of its row. `stage` may be any function of
# an activation and its weight; activations here are [2, 3].
def stage(number, h, weight):
    return torch.tanh(h @ weight)


rows = dist.pipeline_schedule(schedule)
rank_of = {}
for r in range(len(rows)):
    for cell in rows[r]:
        for number, kind, m in cell:
            if kind in ["F", "B", "I", "W"]:
                rank_of[number] = r
own = [s for s in range(stages) if rank_of[s] == rank]
weights = {s: w.to_local()[s].detach().requires_grad_() for s in own}
gradients = {s: torch.zeros([3, 3]) for s in own}
taken, given, above, below = {}, {}, {}, {}
arrives, buffers, sends = {}, {}, {}
live, most = 0, 0


def arrived(kind, s, m):
    arrives[kind, s, m].wait()
    return buffers[kind, s, m]


def forward(s, m):
    if s == 0:
        h = x.to_local()[m]
    elif rank_of[s - 1] == rank:
        h = given[s - 1, m]
    else:
        h = arrived("F", s, m)
    taken[s, m] = h.detach().requires_grad_()
    given[s, m] = stage(s, taken[s, m], weights[s])


def upstream(s, m):
    if s == stages - 1:
        return 2 * given[s, m].detach()
    if rank_of[s + 1] == rank:
        return below[s + 1, m]
    return arrived("B", s, m)


def backward_input(s, m):
    above[s, m] = upstream(s, m)
    product = (given[s, m] * above[s, m]).sum()
    below[s, m] = grad(product, [taken[s, m]], retain_graph=True)[0]


def backward_weight(s, m):
    product = (given[s, m] * above[s, m]).sum()
    gradients[s] += grad(product, [weights[s]])[0]


def send(kind, s, m):
    to = s + 1 if kind == "F" else s - 1
    value = given[s, m].detach() if kind == "F" else below[s, m]
    sends[kind, s, m] = dist.isend(value, rank_of[to], label=f"{kind}{m} of stage {to}")


def receive(kind, s, m):
    peer = rank_of[s - 1] if kind == "F" else rank_of[s + 1]
    buffers[kind, s, m] = torch.empty([2, 3])
    arrives[kind, s, m] = dist.irecv(buffers[kind, s, m], peer, label=f"{kind}{m} of stage {s}")


for cell in rows[rank]:
    for s, kind, m in cell:
        if kind == "F":
            forward(s, m)
            live += 1
            most = max(most, live)
        elif kind == "I":
            backward_input(s, m)
        elif kind == "W":
            backward_weight(s, m)
        elif kind == "B":
            backward_input(s, m)
            backward_weight(s, m)
        elif kind.startswith("SEND_"):
            send(kind[5:], s, m)
        elif kind.startswith("RECV_"):
            receive(kind[5:], s, m)
        elif kind.startswith("WAIT_SEND_"):
            sends[kind[10:], s, m].wait()
    for s, kind, m in cell:
        if kind in ["B", "W"]:
            live -= 1
print("live microbatches", most)
all_gradients, outputs = torch.zeros([stages, 3, 3]), torch.zeros([micro, 2, 3])
for s in own:
    all_gradients[s] = gradients[s]
if stages - 1 in own:
    for m in range(micro):
        outputs[m] = given[stages - 1, m].detach()
gw = from_local(all_gradients, mesh=mesh, pp=P(sum))
y = from_local(outputs, mesh=mesh, pp=P(sum))
