#include "sim/input_pipeline/predict/simulate_input.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "traces/base/error.h"
#include "traces/input_tasks.h"

namespace pipesim {
namespace {

std::vector<CallWork> work_of(const InputProgram& program, const InputCosts& costs,
                              FlowNetwork& network) {
  std::vector<LinkId> links;
  for (const InputLink& link : costs.links)
    links.push_back(network.add_link(link.bytes_per_second));
  std::vector<CallWork> works;
  works.reserve(static_cast<std::size_t>(program.size()));
  for (int rank = 0; rank < program.ranks(); ++rank) {
    std::array<CallWork, kind_count> by_kind;
    for (const Kind kind : input_kinds) {
      const InputWork& given = costs.of(rank, kind);
      CallWork& work = by_kind[static_cast<std::size_t>(kind)];
      work = {given.host_ns, given.duration_ns, given.bytes};
      if (given.links.empty() || given.bytes == 0) continue;
      std::vector<LinkId> route;
      for (const std::uint32_t link : given.links) route.push_back(links[link]);
      work.route = network.add_route(route);
    }
    for (const InputCall& call : program.calls[static_cast<std::size_t>(rank)]) {
      works.push_back(by_kind[static_cast<std::size_t>(call.action.kind)]);
    }
  }
  return works;
}

InputRun run_or_throw(const InputProgram& program, std::vector<CallWork> work,
                      FlowNetwork network) {
  auto result = play(program, std::move(work), std::move(network));
  if (const auto* fault = std::get_if<InputFault>(&result)) {
    throw input_error(fmt::format("{}: {}", program.name, fault->rule));
  }
  return std::get<InputRun>(std::move(result));
}

}  // namespace

InputRun simulate_input(const InputProgram& program, const InputCosts& costs) {
  check_costs(program, costs);
  FlowNetwork network;
  std::vector<CallWork> work = work_of(program, costs, network);
  InputRun run = run_or_throw(program, std::move(work), std::move(network));
  run.batch_size = costs.batch_size;
  if (!costs.holdings.empty()) run.memory = memory_of(run, costs);
  return run;
}

InputRun replay_input(const InputProgram& program,
                      const std::vector<std::vector<InputCallTime>>& times) {
  std::vector<CallWork> works;
  for (const auto& of_rank : times) {
    for (const InputCallTime& time : of_rank) {
      works.push_back({time.host_ns, time.duration_ns});
    }
  }
  return run_or_throw(program, std::move(works), {});
}

}  // namespace pipesim
