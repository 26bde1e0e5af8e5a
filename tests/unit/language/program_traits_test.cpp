// Facts that the text of a program gives about the rank in its values.
#include "sim/language/run/program_traits.h"

#include <doctest/doctest.h>

#include "sim/language/syntax/parser.h"

using namespace shardlab;

namespace {

ProgramTraits traits(const std::string& code) {
  return traits_of(parse_program(std::make_shared<const SourceText>("t", code)));
}

}  // namespace

TEST_CASE("a name follows the rank through arithmetic, an index, a branch and a loop") {
  const ProgramTraits found = traits(R"(
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
  CHECK(found.reads_rank);
  for (const char* name : {"a", "b", "c", "d", "e", "i"}) CHECK(found.follows_rank(name));
  CHECK_FALSE(found.follows_rank("f"));
  CHECK(found.follows_rank("a[0]"));
}

TEST_CASE("a branch that only prints makes no value follow the rank") {
  const ProgramTraits found = traits("y = x * 2\nif rank == 0:\n    print(y.type)\n");
  CHECK(found.reads_rank);
  CHECK_FALSE(found.follows_rank("y"));
  CHECK(found.follows_rank("print(y.type)"));  // values that a rank reads and others do not
}

TEST_CASE("the rank goes through defs: arguments, results, what stands below a return") {
  const ProgramTraits found = traits(R"(
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

TEST_CASE("a write in place, an append and a loop that some ranks leave follow the rank") {
  const ProgramTraits found = traits(R"(
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

TEST_CASE("what follows from the program's own collectives and labels is known, too") {
  const ProgramTraits found = traits(R"(
n = all_reduce(ones([1]), "sum")
def mean(v):
    return v / n
a = mean(x)
b = from_local(x.to_local(), mesh=mesh)
b.mul_(2)
c = x * world_size
d = x.to_local() * 2
)");
  for (const char* name : {"n", "a", "b"}) CHECK(found.follows_exchange(name));
  CHECK_FALSE(found.follows_exchange("c"));
  CHECK_FALSE(found.follows_exchange("d"));
  CHECK(found.by_rank.empty());
  CHECK(traits("l = all_reduce(w.sum(), 'sum')\nbackward(l)\n").follows_exchange("w.grad"));
}

TEST_CASE("a backward pass from such a value makes all gradients follow the rank") {
  CHECK(traits("l = (w * rank).sum()\nbackward(l)\n").follows_rank("w.grad"));
  CHECK(traits("l = (w * rank).sum()\nl.backward()\n").follows_rank("w.grad"));
  CHECK_FALSE(traits("l = (w * 2).sum()\nbackward(l)\na = rank\n").follows_rank("w.grad"));
}

TEST_CASE("local tensors and own collectives leave the distributed world; moving does not") {
  CHECK(traits("y = x.to_local()").leaves);
  CHECK(traits("y = from_local(x, mesh=mesh)").leaves);
  CHECK(traits("y = all_reduce(x, 'sum')").leaves);
  CHECK_FALSE(traits("y = x.redistribute(tp=R).full_tensor()").leaves);
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
  const ProgramTraits by_forward = traits(code + "a = F.apply(x)\nb = x + 1\n");
  CHECK(by_forward.leaves);
  CHECK(by_forward.follows_exchange("a"));
  CHECK_FALSE(by_forward.follows_exchange("b"));
  const ProgramTraits by_backward = traits(code + "f = G.apply\nc = f(x)\n");
  CHECK_FALSE(by_backward.follows_exchange("c"));
  CHECK(by_backward.follows_exchange("x.grad"));
  const ProgramTraits by_rank = traits(code + "a = F.apply(x * rank)\nb = G.apply(x)\n");
  CHECK(by_rank.follows_rank("a"));
  CHECK(by_rank.follows_rank("F.forward.y"));
  CHECK(by_rank.follows_rank("F.backward.s"));
  CHECK_FALSE(by_rank.follows_rank("b"));
  CHECK_FALSE(by_rank.follows_rank("G.forward.y"));
}

TEST_CASE(
    "B-24 what is received follows the rank, through defs and lists, and what is sent does not") {
  const ProgramTraits found = traits(R"(
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
