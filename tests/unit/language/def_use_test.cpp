// The values of which others are made, by the text of a program.
#include "sim/language/run/def_use.h"

#include <doctest/doctest.h>

#include "sim/language/syntax/parser.h"

using namespace shardlab;

namespace {

ast::Program parsed(const std::string& code) {
  return parse_program(std::make_shared<const SourceText>("t", code));
}

DefUse flow_of(const std::string& code) { return DefUse(parsed(code)); }
ProgramTraits traits(const std::string& code) { return traits_of(parsed(code)); }

bool follows_exchange(const DefUse& flow, std::string_view recorded) {
  const auto all = flow.made_of(flow.held_by(recorded));
  return flow.any(all, DefUse::Kind::kReduced) || flow.any(all, DefUse::Kind::kLabelled);
}

}  // namespace

TEST_CASE("a name follows the rank through arithmetic, an index, a branch and a loop") {
  const DefUse found = flow_of(R"(
a = ones([3]) * rank
b = a + 1
c = x[mesh.coordinate("x")]
if rank == 0:
    d = x
else:
    d = x * 2
for i in range(rank):
    e = x
f = x * 3
)");
  for (const char* name : {"a", "b", "c", "d", "e", "i"}) CHECK(found.follows_rank(name));
  CHECK_FALSE(found.follows_rank("f"));
  CHECK(found.follows_rank("a[0]"));
}

TEST_CASE("a branch that only prints makes no value follow the rank") {
  const DefUse found = flow_of("y = x * 2\nif rank == 0:\n    print(y.type)\n");
  CHECK_FALSE(found.follows_rank("y"));
}

TEST_CASE("the rank goes through defs: arguments, results, what stands below a return") {
  const DefUse found = flow_of(R"(
def twice(v):
    w = v * 2
    return w
def early(v):
    if rank > 0:
        return v
    u = v * 2
    return u
a = twice(rank)
b = early(x)
c = x + 1
)");
  CHECK(found.follows_rank("a"));
  CHECK(found.follows_rank("twice.w"));
  CHECK(found.follows_rank("b"));
  CHECK(found.follows_rank("early.u"));
  CHECK_FALSE(found.follows_rank("c"));
}

TEST_CASE("B-63 the rank goes through the def that a checkpoint calls, and what it writes") {
  const DefUse found = flow_of(R"(
def early(v):
    w = v * 2
    seen.append(v)
    return x
seen = []
a = torch.utils.checkpoint.checkpoint(early, rank, use_reentrant=False)
b = x + 1
)");
  CHECK(found.follows_rank("early.w"));
  CHECK(found.follows_rank("seen[0]"));
  CHECK_FALSE(found.follows_rank("a"));
  CHECK_FALSE(found.follows_rank("b"));
}

TEST_CASE("a write in place, an append and a loop that some ranks leave follow the rank") {
  const DefUse found = flow_of(R"(
x.add_(rank)
outs = []
outs.append(x)
y = z * 1
for i in range(4):
    y = y * 2
    if rank == i:
        break
)");
  CHECK(found.follows_rank("x"));
  CHECK(found.follows_rank("outs[0]"));
  CHECK(found.follows_rank("y"));
}

TEST_CASE("values that follow from the program's own collectives and labels are known") {
  const DefUse found = flow_of(R"(
n = all_reduce(ones([1]), "sum")
def mean(v):
    return v / n
a = mean(x)
c = x * world_size
d = x.to_local() * 2
b = from_local(x.to_local(), mesh=mesh)
b.mul_(2)
e = x * 2
)");
  for (const char* name : {"n", "a", "b", "e"}) CHECK(follows_exchange(found, name));
  CHECK_FALSE(follows_exchange(found, "c"));
  CHECK_FALSE(follows_exchange(found, "d"));
  CHECK(follows_exchange(flow_of("l = all_reduce(w.sum(), 'sum')\nbackward(l)\n"), "w.grad"));
}

TEST_CASE("a backward pass from such a value makes all gradients follow the rank") {
  CHECK(flow_of("l = (w * rank).sum()\nbackward(l)\n").follows_rank("w.grad"));
  CHECK(flow_of("l = (w * rank).sum()\nl.backward()\n").follows_rank("w.grad"));
  CHECK_FALSE(flow_of("l = (w * 2).sum()\nbackward(l)\na = rank\n").follows_rank("w.grad"));
}

TEST_CASE("local tensors and own collectives leave the distributed world; moving does not") {
  CHECK(traits("y = x.to_local()").leaves);
  CHECK(traits("y = from_local(x, mesh=mesh)").leaves);
  CHECK(traits("y = all_reduce(x, 'sum')").leaves);
  CHECK_FALSE(traits("y = x.redistribute(tp=R).full_tensor()").leaves);
  CHECK(traits("class F(torch.autograd.Function):\n    @staticmethod\n"
               "    def forward(ctx, x):\n        dist.all_reduce(x)\n        return x\n")
            .leaves);
  CHECK(traits("if rank == 0:\n    print(x.type)\n").reads_rank);
  CHECK_FALSE(traits("y = x * world_size").reads_rank);
  CHECK(traits("y = x / world_size").reads_world);
  CHECK(traits("y = x / mesh.size('dp')").reads_world);
  CHECK_FALSE(traits("y = distribute(x, mesh=mesh)").reads_world);
  CHECK(traits("assert_close(x, x)").asserts_close);
}

TEST_CASE("a Function passes on what its forward gives, and gradients what its backward gives") {
  const std::string code = R"(
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = x * 2
        dist.all_reduce(y)
        return y
    @staticmethod
    def backward(ctx, g):
        (s,) = ctx.saved_tensors
        h = g * 2
        return h
class G(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 3
        return y
    @staticmethod
    def backward(ctx, g):
        dist.all_reduce(g)
        return g
)";
  const DefUse by_forward = flow_of(code + "a = F.apply(x)\nb = x + 1\n");
  CHECK(follows_exchange(by_forward, "a"));
  CHECK_FALSE(follows_exchange(by_forward, "b"));
  const DefUse by_backward = flow_of(code + "f = G.apply\nc = f(x)\nc.sum().backward()\n");
  CHECK_FALSE(follows_exchange(by_backward, "c"));
  CHECK(follows_exchange(by_backward, "x.grad"));
  const DefUse by_rank = flow_of(code + "a = F.apply(x * rank)\nb = G.apply(x)\n");
  CHECK(by_rank.follows_rank("a"));
  CHECK(by_rank.follows_rank("F.forward.y"));
  CHECK(by_rank.follows_rank("F.backward.s"));
  CHECK_FALSE(by_rank.follows_rank("b"));
  CHECK_FALSE(by_rank.follows_rank("G.forward.y"));
}

TEST_CASE(
    "B-24 a received value follows the rank, through defs and lists, and a sent one does not") {
  const DefUse found = flow_of(R"(
if rank == 0:
    dist.send(a, 1)
dist.recv(b, 0)
work = dist.irecv(c, src=0)
ops = [dist.P2POp(dist.isend, d, 1), dist.P2POp(dist.irecv, e, 1)]
def into(peer, buffer):
    dist.recv(buffer, peer)
into(1, f)
into(1, buffer=g)
h = [torch.empty([2]) for i in range(2)]
works = [dist.irecv(item, 0) for item in h]
for one in k:
    into(0, one)
m = b * 2
)");
  for (const char* name : {"b", "c", "e", "f", "g", "h", "k", "m"}) {
    CAPTURE(name);
    CHECK(found.follows_rank(name));
  }
  for (const char* name : {"a", "d"}) CHECK_FALSE(found.follows_rank(name));
}
