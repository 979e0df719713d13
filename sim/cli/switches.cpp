#include "sim/cli/switches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "traces/base/error.h"

namespace pipesim::cli {
namespace {

class Switches {
 public:
  Switches(const CostModel& model, const ScheduleChoice& choice)
      : model_(model.model()), now_(model.training()), choice_(choice) {
    has_attention_ = model_.is_decoder();
    hidden_ = model.cluster().device.software.hidden_exchange;
  }

  // By kind.
  std::vector<std::vector<FlagValues>> all(const OtherFlags& other) {
    add_recomputation();
    if (has_attention_ && now_.attention == Attention::unfused) add({{{"--attention", "fused"}}});
    add_tensor_parallelism(other.has_batch && other.has_devices);
    add_replicas();
    add_experts();
    add_microbatches(other.has_batch);
    if (now_.gradient_bytes == 4 && bytes_of(now_.precision) < 4) {
      add({{{"--gradient-bytes", "2"}}});
    }
    if (has_attention_ && !now_.fused_loss) add({{{"--fused-loss", "on"}}});
    const int chunks = choice_.schedule.placement.chunks();
    if (choice_.family != nullptr && choice_.family->many_chunks) {
      add({{{"--virtual-stages", std::to_string(2 * chunks)}},
           {{"--virtual-stages", std::to_string(chunks + 1)}},
           {{"--virtual-stages", std::to_string(chunks - 1)}}});
    }
    return std::move(kinds_);
  }

 private:
  void add(std::vector<FlagValues> kind) { kinds_.push_back(std::move(kind)); }

  void add_recomputation() {
    const Recompute& own = now_.recompute;
    if (!own.exists() || own.blocks > 0) return;
    std::vector<FlagValues> less{{{"--recompute", "none"}}};
    if (has_attention_ && own.full) {
      less.push_back({{"--recompute", "selective"}});
      less.push_back({{"--recompute", "norms,activation"}});
    }
    add(std::move(less));
  }

  void add_tensor_parallelism(bool follows) {
    const int degree = now_.tensor_parallel;
    if (degree > 1) {
      std::vector<FlagValues> overlapped;
      if (!now_.sequence_parallel) overlapped.push_back({{"--sequence-parallel", "on"}});
      if (!now_.asynchronous_reduction || now_.hidden_exchange < hidden_) {
        overlapped.push_back({{"--tensor-overlap", "on"}});
        overlapped.push_back({{"--sequence-parallel", "on"}, {"--tensor-overlap", "on"}});
      }
      add(std::move(overlapped));
    }
    if (!follows) return;
    std::vector<FlagValues> other{{{"--tensor-parallel", std::to_string(2 * degree)}}};
    if (degree % 2 == 0) other.push_back({{"--tensor-parallel", std::to_string(degree / 2)}});
    add(std::move(other));
  }

  void add_experts() {
    if (!model_.has_experts()) return;
    if (now_.expert_load.name != "balanced") add({{{"--expert-load", "balanced"}}});
    if (now_.expert_parallel == 1) return;
    if (now_.dispatch != Dispatch::deduplicated) add({{{"--expert-dispatch", "deduplicated"}}});
    const bool can = !now_.recompute.full && !now_.recompute.experts;
    if (can && !now_.overlaps_experts) add({{{"--overlap-experts", "on"}}});
  }

  void add_replicas() {
    if (!now_.has_replicas()) return;
    const bool is_late = now_.zero <= 1 && !now_.bucket_bytes;
    if (is_late) add({{{"--bucket-bytes", "25MB"}}, {{"--bucket-bytes", "100MB"}}});
    if ((now_.zero == 1 || now_.zero == 2) && !now_.gathers_ahead) {
      add({{{"--overlap-gather", "on"}}});
    }
    std::vector<FlagValues> sharded;
    for (int zero = 0; zero <= 3; ++zero) {
      if (zero != now_.zero) sharded.push_back({{"--zero", std::to_string(zero)}});
    }
    add(std::move(sharded));
  }

  // As many sequences as before.
  void add_microbatches(bool follow) {
    std::vector<FlagValues> other;
    const int microbatches = choice_.schedule.microbatches;
    const auto try_size = [&](std::int64_t size, int count) {
      other.push_back({{"--micro-batch-size", std::to_string(size)}});
      if (!follow) other.back()["--microbatches"] = std::to_string(count);
    };
    if (microbatches % 2 == 0) try_size(2 * now_.micro_batch_size, microbatches / 2);
    if (now_.micro_batch_size % 2 == 0) try_size(now_.micro_batch_size / 2, 2 * microbatches);
    add(std::move(other));
  }

  const Model& model_;
  const Training& now_;
  const ScheduleChoice& choice_;
  bool has_attention_ = false;
  double hidden_ = 0;
  std::vector<std::vector<FlagValues>> kinds_;
};

// By kind, the mildest first.
std::vector<std::vector<Remedy>> remedies_of(const Training& now, const Model& model) {
  std::vector<std::vector<Remedy>> kinds;
  const bool has_attention = model.is_decoder();
  const bool is_unfused = now.attention == Attention::unfused;
  if (has_attention && is_unfused) {
    kinds.push_back({{"fused attention", {{"--attention", "fused"}}, {}}});
  }
  std::vector<Remedy>& recomputation = kinds.emplace_back();
  const auto add = [&](const std::string& what, const Recompute& more) {
    if (more == now.recompute) return;
    recomputation.push_back({what, {{"--recompute", recompute_name(more)}}, {}});
  };
  if (has_attention && !now.recompute.full) {
    Recompute more = now.recompute;
    more.attention = true;
    add("selective recomputation", more);
    // Fused attention keeps next to nothing that its core would make again.
    more.attention = now.recompute.attention || is_unfused;
    more.norms = more.activation = true;
    add("recomputation of " + recompute_words(more), more);
    more.latent = model.latent.has_value();
    if (model.has_experts()) {
      more.activation = false;
      more.experts = true;
    }
    if (more.latent || more.experts) add("recomputation of " + recompute_words(more), more);
  }
  if (!model.is_listed()) add("full recomputation", {.full = true});
  if (now.tensor_parallel > 1 && !now.sequence_parallel) {
    kinds.push_back({{"sequence parallelism", {{"--sequence-parallel", "on"}}, {}}});
  }
  std::vector<Remedy>& sharding = kinds.emplace_back();
  for (int zero = now.zero + 1; now.has_replicas() && zero <= 3; ++zero) {
    const std::string stage = std::to_string(zero);
    sharding.push_back({"ZeRO " + stage, {{"--zero", stage}}, {}});
  }
  return kinds;
}

// Whether it can be, as where tokens divide.
bool attempt(Remedy& remedy, const OtherFlags& other) {
  try {
    remedy.outcome = other.predict(remedy.flags);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<Remedy> find_remedies(const CostModel& model, std::int64_t memory_bytes,
                                  const OtherFlags& other) {
  const auto fits = [&](const Remedy& one) { return one.outcome.memory_bytes <= memory_bytes; };
  std::vector<Remedy> found;
  for (std::vector<Remedy>& kind : remedies_of(model.training(), model.model())) {
    std::optional<Remedy> best;
    for (Remedy& one : kind) {
      if (!attempt(one, other)) continue;
      // Stages that gather all of their weights need more memory than those that keep them.
      if (!best || one.outcome.memory_bytes < best->outcome.memory_bytes) best = std::move(one);
      if (fits(*best)) break;
    }
    if (best) found.push_back(*std::move(best));
  }
  std::ranges::stable_sort(found, {}, [&](const Remedy& one) {
    return fits(one) ? std::pair(0, one.outcome.time_ns) : std::pair(1, one.outcome.memory_bytes);
  });
  if (found.empty() || fits(found.front())) return found;
  // One after the other on top of each other, until it fits.
  Remedy joint;
  for (const Remedy& one : found) {
    joint.what += (joint.what.empty() ? "" : " and ") + one.what;
    joint.flags.insert(one.flags.begin(), one.flags.end());
    if (!attempt(joint, other) || !fits(joint)) continue;
    found.insert(found.begin(), joint);
    break;
  }
  return found;
}

std::vector<Limit> find_switches(const CostModel& model, const ScheduleChoice& choice,
                                 std::int64_t makespan_ns, std::int64_t memory_bytes,
                                 const OtherFlags& other) {
  std::vector<Limit> found;
  for (const std::vector<FlagValues>& kind : Switches(model, choice).all(other)) {
    std::optional<Limit> best;
    for (const FlagValues& flags : kind) {
      try {
        const auto [time_ns, bytes] = other.predict(flags);
        const std::int64_t gain_ns = makespan_ns - time_ns;
        if (bytes > memory_bytes || gain_ns <= (best ? best->gain_ns : 0)) continue;
        best = Limit{.kind = LimitKind::option,
                     .gain_ns = gain_ns,
                     .candidate = {},
                     .flags = flags,
                     .peak_memory_bytes = bytes};
      } catch (const Error&) {
        continue;  // it can't be, as where tokens don't divide
      }
    }
    if (best) found.push_back(*std::move(best));
  }
  return found;
}

}  // namespace pipesim::cli
