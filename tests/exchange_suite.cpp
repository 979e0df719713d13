// The last part of the suite: exchanges of a group's ranks, on the memory of a device.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "exec/run/exchange.h"
#include "exec/transport/collectives.h"
#include "exec/transport/group.h"
#include "tests/transport_suite.h"

namespace pipesim::testing {
namespace {

using exec::AllGather;
using exec::AllToAll;
using exec::Broadcast;
using exec::Number;
using exec::Pool;
using exec::Range;
using exec::ReduceScatter;
using exec::SharedArray;
using exec::Slice;
using exec::Steps;
using exec::Tensor;
using exec::Ticket;
using exec::Transport;
using exec::Use;

// Element i of what a rank has, of very different sizes, so that sums in another order have
// other bits.
float number(int rank, std::int64_t i, unsigned salt) {
  const auto word =
      (static_cast<std::uint32_t>(i) * 31 + static_cast<std::uint32_t>(rank) * 1009 + salt) *
      2'654'435'761U;
  return std::ldexp(static_cast<float>(static_cast<std::int32_t>(word)),
                    static_cast<int>(word >> 7U) % 24 - 40);
}

// An exchange under way, and what it must lead to.
struct Running {
  std::string name;
  Steps steps;
  std::vector<Tensor> memory;
  std::vector<std::pair<Slice, std::vector<float>>> wanted = {};
};

class ExchangeSuite {
 public:
  ExchangeSuite(Transport& transport, exec::Device& device)
      : transport_(transport), device_(device), pool_(device) {}

  std::vector<std::string> run() {
    const std::vector<RankGroup> groups = groups_with_this_rank();
    for (const std::int64_t size : {0, 1, 2, 17, 1000, 30'011}) {
      for (const RankGroup& ranks : groups) {
        exec::GroupTransport group(transport_, ranks);
        // Every way where some parts are of one number and others of none.
        const int ways = size == 17 ? 3 : 1;
        for (int way = 0; way < ways; ++way) {
          for (Running& one : every_kind(group, size)) {
            finish(group, one, (way + static_cast<int>(size)) % 3);
            look_at(one);
          }
        }
        if (size > 100) several_at_once(group, size);
      }
      if (size == 1000) in_several_groups(groups);
    }
    an_order_has_its_bits();
    return complaints_;
  }

 private:
  void expect(bool fine, const std::string& what) {
    if (!fine) complaints_.push_back(fmt::format("rank {}: {}", transport_.rank(), what));
  }

  // All ranks, blocks of two neighbours, every second one, and this rank alone; the same on all
  // ranks of each.
  std::vector<RankGroup> groups_with_this_rank() const {
    const std::int64_t ranks = transport_.ranks();
    const std::int64_t own = transport_.rank();
    const std::int64_t pair = own / 2 * 2;
    return {{0, 1, ranks},
            {pair, 1, std::min<std::int64_t>(2, ranks - pair)},
            {own % 2, 2, (ranks - own % 2 + 1) / 2},
            {own, 1, 1}};
  }

  Tensor filled(const std::vector<float>& values) {
    Tensor tensor = pool_.take(static_cast<std::int64_t>(values.size()), Use::activations);
    if (!values.empty()) device_.upload(tensor.memory(), values.data(), tensor.bytes());
    return tensor;
  }
  std::vector<float> values_of_rank(int rank, std::int64_t size) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < size; ++i) values.push_back(number(rank, i, salt_));
    return values;
  }
  static std::vector<float> part_of(const std::vector<float>& values, const Range& range) {
    return {values.begin() + range.begin, values.begin() + range.end};
  }

  // Each as two numbers of half its size.
  static SharedArray in_halves(const SharedArray& array) {
    SharedArray halves{{array.numbers.memory(), 2 * array.numbers.size(), Number::bfloat16}, {}};
    for (const Range& part : array.parts) halves.parts.push_back({2 * part.begin, 2 * part.end});
    return halves;
  }

  // Parts one behind the other, of random sizes, some of none.
  std::vector<Range> random_parts(std::int64_t size, int ranks) {
    std::vector<std::int64_t> cuts{0, size};
    for (int i = 1; i < ranks; ++i) {
      cuts.push_back(plan_() % 3 == 0 ? size : static_cast<std::int64_t>(plan_() % (size + 1)));
    }
    std::ranges::sort(cuts);
    std::vector<Range> parts;
    for (int i = 0; i < ranks; ++i) {
      const auto at = static_cast<std::size_t>(i);
      parts.push_back({cuts[at], cuts[at + 1]});
    }
    std::ranges::shuffle(parts, plan_);
    return parts;
  }

  // One of each, alike on all ranks of the group. Calls draw the same plan on all of them, as
  // long as they come in the same order.
  std::vector<Running> every_kind(Transport& group, std::int64_t size) {
    plan_.seed(static_cast<unsigned>(size * 10 + group.ranks()));
    salt_ = tags_ = ++calls_ % 400 * 64;
    std::vector<Running> all;
    all.push_back(reduce_scatter(group, size));
    all.push_back(all_gather(group, size));
    all.push_back(all_reduce(group, size));
    const int root = static_cast<int>(plan_() % static_cast<unsigned>(group.ranks()));
    for (int i = 0; i < group.ranks(); ++i) {
      if (size < 100 || i == root) all.push_back(broadcast(group, size, i));
    }
    all.push_back(all_to_all(group, size, true));
    all.push_back(all_to_all(group, size, false));
    return all;
  }

  std::vector<float> sums(int ranks, std::int64_t size) const {
    std::vector<float> sum = values_of_rank(0, size);
    for (int rank = 1; rank < ranks; ++rank) {
      for (std::int64_t i = 0; i < size; ++i) {
        sum[static_cast<std::size_t>(i)] += number(rank, i, salt_);
      }
    }
    return sum;
  }

  Running reduce_scatter(Transport& group, std::int64_t size) {
    ++salt_;
    Running one{fmt::format("reduce-scatter of {}", size), {}, {}};
    const auto own = static_cast<std::size_t>(group.rank());
    const std::vector<Range> parts = random_parts(size, group.ranks());
    one.memory.push_back(filled(values_of_rank(group.rank(), size)));
    const Slice numbers = one.memory.back().all();
    one.steps.push_back(
        std::make_unique<ReduceScatter>(group, pool_, SharedArray{numbers, parts}, next_tag()));
    one.wanted.emplace_back(numbers.part(parts[own].begin, parts[own].size()),
                            part_of(sums(group.ranks(), size), parts[own]));
    return one;
  }

  Running all_gather(Transport& group, std::int64_t size) {
    ++salt_;
    Running one{fmt::format("all-gather of {}", size), {}, {}};
    const std::vector<Range> parts = random_parts(size, group.ranks());
    std::vector<float> wanted(static_cast<std::size_t>(size));
    for (int rank = 0; rank < group.ranks(); ++rank) {
      const Range& part = parts[static_cast<std::size_t>(rank)];
      std::ranges::copy(part_of(values_of_rank(rank, size), part), wanted.begin() + part.begin);
    }
    one.memory.push_back(filled(values_of_rank(group.rank(), size)));
    SharedArray array{one.memory.back().all(), parts};
    if (size % 2 == 0) array = in_halves(array);
    one.steps.push_back(std::make_unique<AllGather>(group, pool_, array, next_tag()));
    one.wanted.emplace_back(one.memory.back().all(), wanted);
    return one;
  }

  Running all_reduce(Transport& group, std::int64_t size) {
    ++salt_;
    Running one{fmt::format("all-reduce of {}", size), {}, {}};
    one.memory.push_back(filled(values_of_rank(group.rank(), size)));
    const int tag = next_tag();
    next_tag();
    one.steps = exec::all_reduce(group, pool_, one.memory.back().all(), tag);
    one.wanted.emplace_back(one.memory.back().all(), sums(group.ranks(), size));
    return one;
  }

  Running broadcast(Transport& group, std::int64_t size, int root) {
    ++salt_;
    Running one{fmt::format("broadcast of {} from place {}", size, root), {}, {}};
    one.memory.push_back(filled(values_of_rank(group.rank(), size)));
    one.steps.push_back(
        std::make_unique<Broadcast>(group, pool_, one.memory.back().all(), root, next_tag()));
    one.wanted.emplace_back(one.memory.back().all(), values_of_rank(root, size));
    return one;
  }

  // Of `size` numbers for each, or of up to so many, and for some none; what is given stands in
  // another order than what is taken.
  Running all_to_all(Transport& group, std::int64_t size, bool equal) {
    ++salt_;
    Running one{fmt::format("all-to-all of {}{}", equal ? "" : "up to ", size), {}, {}};
    const int ranks = group.ranks();
    std::vector<std::vector<Range>> given;  // of each rank
    for (int rank = 0; rank < ranks; ++rank) {
      given.push_back(equal ? exec::in_equal_parts({nullptr, size * ranks, {}}, ranks).parts
                            : random_parts(size * ranks, ranks));
    }
    const auto own = static_cast<std::size_t>(group.rank());
    std::vector<Range> parts;  // of what this rank takes
    std::vector<float> wanted;
    for (std::size_t rank = 0; rank < given.size(); ++rank) {
      const auto theirs =
          part_of(values_of_rank(static_cast<int>(rank), size * ranks), given[rank][own]);
      const auto begin = static_cast<std::int64_t>(wanted.size());
      wanted.insert(wanted.end(), theirs.begin(), theirs.end());
      parts.push_back({begin, static_cast<std::int64_t>(wanted.size())});
    }
    const std::vector<float> values = values_of_rank(group.rank(), size * ranks);
    one.memory.push_back(filled(values));
    one.memory.push_back(filled(std::vector<float>(wanted.size(), -1.0F)));
    const Slice from = one.memory[0].all();
    const Slice to = one.memory[1].all();
    one.steps.push_back(std::make_unique<AllToAll>(group, pool_, SharedArray{from, given[own]},
                                                   SharedArray{to, parts}, next_tag()));
    one.wanted.emplace_back(to, wanted);
    one.wanted.emplace_back(from, values);
    return one;
  }

  // Blocking, by looking, or by waiting for whichever message comes.
  void finish(Transport& group, Running& one, int way) {
    if (way == 0) return exec::run(one.steps);
    for (const auto& step : one.steps) {
      step->start();
      while (!step->is_done()) {
        if (way == 1) {
          step->poll();
          continue;
        }
        std::vector<Ticket> tickets;
        step->collect(tickets);
        step->settle(group.wait_any(tickets));
      }
    }
  }

  void look_at(const Running& one) {
    for (const auto& [numbers, wanted] : one.wanted) {
      std::vector<float> got(static_cast<std::size_t>(numbers.size()));
      if (!got.empty()) device_.download(got.data(), numbers.memory(), numbers.bytes());
      const bool same =
          got.size() == wanted.size() &&
          std::ranges::equal(std::as_bytes(std::span(got)), std::as_bytes(std::span(wanted)));
      expect(same, one.name + " has other bits");
    }
  }

  // All are started at once, in the same order on all ranks, and looked at in any.
  void finish_all(std::vector<Running> all) {
    std::mt19937 random(static_cast<unsigned>(transport_.rank()));
    for (const Running& one : all) one.steps.front()->start();
    std::vector<std::size_t> step(all.size());
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < all.size(); ++i) open.push_back(i);
    while (!open.empty()) {
      std::swap(open[random() % open.size()], open.back());
      const std::size_t i = open.back();
      if (!all[i].steps[step[i]]->poll()) continue;
      if (++step[i] < all[i].steps.size()) {
        all[i].steps[step[i]]->start();
      } else {
        open.pop_back();
      }
    }
    for (const Running& one : all) look_at(one);
  }

  void several_at_once(Transport& group, std::int64_t size) {
    std::vector<Running> all = every_kind(group, size);
    for (const std::int64_t more : {size / 2, std::int64_t{0}, size + 3}) {
      for (Running& one : every_kind(group, more)) all.push_back(std::move(one));
    }
    finish_all(std::move(all));
  }

  // Each group's are among those of the others.
  void in_several_groups(const std::vector<RankGroup>& groups) {
    std::vector<std::unique_ptr<exec::GroupTransport>> transports;
    std::vector<Running> all;
    for (const RankGroup& ranks : groups) {
      transports.push_back(std::make_unique<exec::GroupTransport>(transport_, ranks));
      for (Running& one : every_kind(*transports.back(), 500)) {
        all.push_back(std::move(one));
      }
    }
    finish_all(std::move(all));
  }

  // Of three ranks or more: or else no order of sums would be told from another.
  void an_order_has_its_bits() {
    const int ranks = transport_.ranks();
    if (ranks < 3) return;
    std::vector<float> backwards(1000);
    for (int rank = ranks; rank-- > 0;) {
      for (std::size_t i = 0; i < backwards.size(); ++i) {
        backwards[i] += number(rank, static_cast<std::int64_t>(i), salt_);
      }
    }
    expect(backwards != sums(ranks, 1000), "sums in another order have the same bits");
  }

  int next_tag() { return exec::first_free_tag + static_cast<int>(tags_++); }

  Transport& transport_;
  exec::Device& device_;
  Pool pool_;
  std::mt19937 plan_;
  // Groups have other numbers of exchanges than others; all ranks have as many calls.
  unsigned calls_ = 0;
  unsigned salt_ = 0;
  unsigned tags_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> check_exchanges(Transport& transport, exec::Device& device) {
  return ExchangeSuite(transport, device).run();
}

}  // namespace pipesim::testing
