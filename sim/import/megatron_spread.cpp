// How Megatron-LM's ranks share sequences and experts: megatron/training/arguments.py and
// megatron/core/parallel_state.py.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/estimate/training.h"
#include "sim/import/megatron_reader.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

// A choice by Megatron-LM's name.
template <typename Value, std::size_t count>
Value megatron_choice(const Arguments& arguments, std::string_view argument,
                      const std::string& text,
                      const std::pair<std::string_view, Value> (&known)[count]) {
  std::vector<std::string> names;
  for (const auto& [name, value] : known) {
    if (text == name) return value;
    names.emplace_back(name);
  }
  arguments.fail(argument, unknown_name("type", text, names));
}

class MegatronSpread : private MegatronReader {
 public:
  MegatronSpread(Arguments& arguments, Imported& imported, MegatronRanks& ranks)
      : MegatronReader(arguments, imported), ranks_(ranks) {}

  void read() {
    read_contexts();
    read_experts();
  }

 private:
  void read_contexts() {
    if (ranks_.contexts == 1) return;
    const auto sequence = arguments_.integer("--seq-length");
    if (sequence && *sequence % (2 * ranks_.contexts) != 0) {
      arguments_.fail("--seq-length", fmt::format("Megatron-LM takes multiples of 2 x "
                                                  "--context-parallel-size {}",
                                                  ranks_.contexts));
    }
    imported_.add("--context-parallel", ranks_.contexts);
    std::vector<std::string> types = arguments_.texts("--cp-comm-type");
    if (types.empty()) types.emplace_back("p2p");
    const std::string& type = types.front();
    const bool are_alike = std::ranges::count(types, type) == std::ssize(types);
    if (!are_alike || type == "a2a+p2p") {
      lacks("--cp-comm-type", are_alike ? "exchanges of two levels are not modelled; a ring is"
                                        : "all blocks exchange alike here; without, as a ring");
      arguments_.find("--hierarchical-context-parallel-sizes");  // belongs to it
      return;
    }
    constexpr std::pair<std::string_view, ContextExchange> known[] = {
        {"p2p", ContextExchange::ring},
        {"all_gather", ContextExchange::gather},
        {"a2a", ContextExchange::all_to_all}};
    const ContextExchange exchange = megatron_choice(arguments_, "--cp-comm-type", type, known);
    imported_.add("--context-parallel-type", context_exchange_name(exchange));
  }

  // They are spread over the ranks of all else, by sizes of their own.
  void read_experts() {
    const std::int64_t ranks = count_of_ranks("--expert-model-parallel-size");
    ranks_.split = count_of_ranks("--expert-tensor-parallel-size", ranks_.tensor);
    if (imported_.model && !imported_.model->has_experts()) {
      if (ranks > 1) arguments_.fail("--expert-model-parallel-size", "takes --num-experts");
      ranks_.split = ranks_.tensor;
      return;
    }
    if (imported_.model && ranks_.tensor > 1 && !arguments_.has("--sequence-parallel")) {
      arguments_.fail("--num-experts",
                      "Megatron-LM takes several tensor-parallel ranks with "
                      "--sequence-parallel alone");
    }
    ranks_.experts = ranks;
    if (ranks_.replicas &&
        ranks_.tensor * ranks_.contexts * *ranks_.replicas % (ranks_.split * ranks_.experts) != 0) {
      arguments_.fail("--expert-model-parallel-size",
                      fmt::format("{} x {} ranks that split an expert do not divide {} x {} x {} "
                                  "tensor-parallel and context-parallel ranks and replicas",
                                  ranks_.experts, ranks_.split, ranks_.tensor, ranks_.contexts,
                                  *ranks_.replicas));
    }
    if (ranks_.experts > 1) imported_.add("--expert-parallel", ranks_.experts);
    if (ranks_.split != ranks_.tensor) imported_.add("--expert-tensor-parallel", ranks_.split);
    constexpr std::pair<std::string_view, Dispatch> known[] = {{"alltoall", Dispatch::all_to_all},
                                                               {"allgather", Dispatch::all_gather},
                                                               {"flex", Dispatch::deduplicated}};
    constexpr const char* name = "--moe-token-dispatcher-type";
    const std::string type = arguments_.text(name).value_or("allgather");
    const Dispatch dispatch = megatron_choice(arguments_, name, type, known);
    const bool has_experts = imported_.model || ranks_.experts > 1;
    if (has_experts && ranks_.experts * ranks_.split > 1) {
      imported_.add("--expert-dispatch", dispatch_name(dispatch));
    }
    read_capacity();
  }

  void read_capacity() {
    constexpr const char* name = "--moe-expert-capacity-factor";
    const std::string factor = arguments_.text(name).value_or("-1");
    if (factor.starts_with('-')) return;  // none
    if (!number_between(factor, 0.01, 100)) {
      arguments_.fail(name, "is not between 0.01 and 100; give a factor such as 1.25");
    }
    imported_.add("--expert-capacity", factor);
    if (!arguments_.is_set("--moe-pad-expert-input-to-capacity")) {
      approximates(name, "tokens are spread evenly over experts here; give --expert-load");
    } else if (*arguments_.number(name) > 1) {
      imported_.add("--expert-load", factor);
    }
  }

  MegatronRanks& ranks_;
};

}  // namespace

void read_megatron_spread(Arguments& arguments, Imported& imported, MegatronRanks& ranks) {
  MegatronSpread(arguments, imported, ranks).read();
}

}  // namespace pipesim
