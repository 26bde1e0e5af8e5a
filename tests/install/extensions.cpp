// Extensions that users add to the library from outside of the repository: a sharding rule for an
// op, a wrapper around every communicator that counts, and one that plants a fault. Each prints one
// line, which install_test.py compares with the expected one.
#include <shardlab/scenario.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>

using namespace shardlab;

// One function sees every collective of every group.
class Around final : public ForwardingCommunicator {
 public:
  using Body = std::function<Tensor(Communicator& real, Call& call)>;
  Around(std::unique_ptr<Communicator> real, const Body& body)
      : ForwardingCommunicator(std::move(real)), body_(body) {}

  Tensor perform(Call& call) override { return body_(real(), call); }

 protected:
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
    return std::make_unique<Around>(std::move(part), body_);
  }

 private:
  const Body& body_;
};

// Uneven pieces, and empty ones: 2 rows over 4 ranks; a convolution asks its neighbours.
const char* const kScenario = R"(
[mesh]
dp = 2
tp = 4
[inputs]
x = "f32[7@dp, 6@tp]"
w = "f32[6@tp, 5]"
z = "f32[2@tp, 3]"
image = "f32[1, 1, 8, 16@tp]"
filter = "f32[1, 1, 3, 3]"
[program]
code = """
y = (x @ w).redistribute(tp=R)
v = z.redistribute(tp=R)
edges = conv2d(image, filter, padding=1)
"""
)";

ScenarioResult run(const ScenarioOptions& options) {
  const auto text = std::make_shared<const SourceText>("own.toml", kScenario);
  const ScenarioFile file = ScenarioFile::read(text, {});
  return run_scenario(file.at(file.points()[0]), all_ops(), options);
}

// The fault is planted in the mesh's first sum, on one rank: it keeps its own term.
Tensor forgets(Communicator& real, Call& call) {
  const Tensor own = call.kind == CollectiveKind::kAllReduce ? clone_contiguous(*call.x) : Tensor();
  Tensor sum = real.perform(call);
  return own.defined() && current_rank().rank == 1 ? own : sum;
}

void show_fault() {
  const Around::Body body = forgets;
  ScenarioOptions options;
  const bool sound = run(options).met();
  options.communicator = [&](std::unique_ptr<Communicator> real) {
    return std::make_unique<Around>(std::move(real), body);
  };
  const ScenarioResult result = run(options);
  std::printf("fault: %s without it; with it %s", sound ? "right" : "wrong",
              result.met() ? "right\n" : "wrong");
  if (!result.judgement.steps.wrong) return;
  const WrongStep& wrong = *result.judgement.steps.wrong;
  std::printf(" in line %d, %s\n", wrong.place.position.line, wrong.place.op.c_str());
}

// Calls of each rank; ranks that represent others are run once more when a class is split.
void show_wrapper(const std::string& backend) {
  std::mutex mutex;
  std::map<std::int64_t, std::map<std::string, int>> by_rank;
  const Around::Body count = [&](Communicator& real, Call& call) {
    {
      const std::lock_guard lock(mutex);
      ++by_rank[current_rank().rank][fmt::format("{} over {}", to_string(call.kind), real.name())];
    }
    return real.perform(call);
  };
  ScenarioOptions options;
  options.backend = backend;
  options.communicator = [&](std::unique_ptr<Communicator> real) {
    const std::lock_guard lock(mutex);
    by_rank[current_rank().rank].clear();
    return std::make_unique<Around>(std::move(real), count);
  };
  run(options);
  std::set<std::string> told;
  for (const auto& [rank, counts] : by_rank) {
    std::string text;
    for (const auto& [what, times] : counts) text += fmt::format(" {} {},", times, what);
    told.insert(text);
  }
  for (const std::string& text : told) std::printf("%s:%s\n", backend.c_str(), text.c_str());
}

int main() {
  show_fault();
  show_wrapper("threads");
  show_wrapper("fake");
}
