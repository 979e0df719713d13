// Two hosts of two ranks each, joined by a link that is slow in one direction:
// network namespaces of this machine. The trace shows which edge is slow, and
// a prediction that knows it agrees.
//
// Started by tests/as_root.sh; exits with 77, as skipped, where nobody may make network
// namespaces.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/cost/costs.h"
#include "sim/engine/simulate.h"
#include "sim/schedule/family.h"
#include "tests/files.h"
#include "tests/mpi/mpirun.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t message_bytes = 500'000;
constexpr std::int64_t slow_bytes_per_second = 12'500'000;  // 100 Mbit/s

bool shell(const std::string& line) {
  return testing::run_command({"/bin/sh", "-c", line + " >/dev/null 2>&1"}).status == 0;
}

// The other host; gone with this.
class SecondHost {
 public:
  SecondHost()
      : name_("pipesim" + std::to_string(::getpid())),
        link_("ps" + std::to_string(::getpid() % 100000)),
        subnet_("10.213." + std::to_string(::getpid() % 250)) {
    is_up_ =
        shell("ip netns add " + name_) &&
        shell("ip link add " + link_ + "a type veth peer name " + link_ + "b") &&
        shell("ip link set " + link_ + "b netns " + name_) &&
        shell("ip addr add " + subnet_ + ".1/24 dev " + link_ + "a") &&
        shell("ip link set " + link_ + "a up") &&
        shell(inside() + "ip addr add " + subnet_ + ".2/24 dev " + link_ + "b") &&
        shell(inside() + "ip link set " + link_ + "b up") &&
        shell(inside() + "ip link set lo up") && shell(inside() + "unshare --uts true") &&
        shell("tc qdisc add dev " + link_ + "a root tbf rate 100mbit burst 32kbit latency 400ms");
  }
  ~SecondHost() {
    shell("ip link del " + link_ + "a");
    shell("ip netns del " + name_);
  }
  SecondHost(const SecondHost&) = delete;
  SecondHost& operator=(const SecondHost&) = delete;

  bool is_up() const { return is_up_; }
  const std::string& name() const { return name_; }
  std::string subnet() const { return subnet_ + ".0/24"; }

 private:
  std::string inside() const { return "ip netns exec " + name_ + " "; }

  std::string name_;
  std::string link_;
  std::string subnet_;
  bool is_up_ = false;
};

std::string this_host() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

Costs costs_of_run() {
  Costs costs;
  StageCosts stage;
  stage.forward_ns = 5'000'000;
  stage.split_backward(10'000'000);
  stage.output_bytes = message_bytes;
  costs.stages.assign(4, stage);
  return costs;
}

class Hosts : public ::testing::Test {
 public:
  static SecondHost* second;
};
SecondHost* Hosts::second = nullptr;

TEST_F(Hosts, ASlowEdgeShows) {
  const testing::TemporaryFolder folder;
  Costs costs = costs_of_run();
  write_file(folder / "costs.json", to_json(costs));
  const testing::Outcome outcome =
      testing::mpirun(4, {"--host",
                          this_host() + ":2," + second->name() + ":2",
                          "--mca",
                          "plm_rsh_agent",
                          testing::source_file("tests/mpi/netns_agent.sh"),
                          "--mca",
                          "oob_tcp_if_include",
                          second->subnet(),
                          "--mca",
                          "btl_tcp_if_include",
                          second->subnet(),
                          "--mca",
                          "btl",
                          "self,vader,tcp",
                          PIPEEXEC_COMMAND,
                          "--schedule",
                          "1f1b",
                          "--microbatches",
                          "6",
                          "--device",
                          "emulated",
                          "--iterations",
                          "3",
                          "--costs",
                          folder / "costs.json",
                          "--trace",
                          folder / "trace.json",
                          "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::map<std::string, std::vector<double>> milliseconds;  // of receives, by edge
  const Json trace = Json::parse(read_file(folder / "trace.json"));
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != "p2p") continue;
    const std::string kind = event["args"]["kind"];
    if (!kind.starts_with("RECV")) continue;
    milliseconds[kind + std::to_string(event["args"]["stage"].get<int>())].push_back(
        event["dur"].get<double>() / 1000);
  }
  std::map<std::string, double> median;
  for (auto& [edge, times] : milliseconds) {
    std::ranges::sort(times);
    median[edge] = times[times.size() / 2];
  }
  // Bytes over bandwidth is 40 ms; nothing can be faster, but for the burst.
  EXPECT_GT(median["RECV_F2"], 30);
  for (const char* edge : {"RECV_F1", "RECV_F3", "RECV_B0", "RECV_B1", "RECV_B2"}) {
    EXPECT_LT(median[edge], median["RECV_F2"]) << edge;
  }

  costs.edges[{1, 2}] = {.bytes_per_second = slow_bytes_per_second};
  const Schedule schedule = generate({.name = "1f1b", .ranks = 4, .microbatches = 6});
  const auto predicted = static_cast<double>(simulate(schedule, costs).makespan_ns);
  const double measured = Json::parse(outcome.out)["iteration_ns"];
  RecordProperty("measured_over_predicted", std::to_string(measured / predicted));
  // A prediction that doesn't know the edge is far off, one that does is near.
  const auto unaware = static_cast<double>(simulate(schedule, costs_of_run()).makespan_ns);
  EXPECT_LT(std::abs(measured - predicted), std::abs(measured - unaware));
  std::printf("measured %.1f ms, predicted %.1f ms with the slow edge, %.1f without\n",
              measured / 1e6, predicted / 1e6, unaware / 1e6);
}

}  // namespace
}  // namespace pipesim

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  pipesim::SecondHost second;
  if (!second.is_up()) {
    std::puts("skipped: netns_test, two hosts (no network namespaces: they take root, ip and tc)");
    return 77;
  }
  pipesim::Hosts::second = &second;
  return RUN_ALL_TESTS();
}
