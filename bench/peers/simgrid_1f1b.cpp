// The 1F1B pipeline as a SimGrid program: a peer to compare speed with, and an
// oracle for makespans.
//
//   simgrid_1f1b STAGES MICROBATCHES FORWARD_NS BACKWARD_NS LATENCY_NS [BYTES BYTES_PER_S]
//
// One actor per rank does its forwards and backwards in 1F1B order. Results travel as detached
// messages over one link per directed pair of neighbours, without blocking the sender; receivers
// are known beforehand, so that a message leaves at once. The network model is the plain one:
// latency plus size over bandwidth, shared max-min. Prints the makespan in milliseconds.
#include <xbt/log.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

namespace {

struct Problem {
  int stages;
  int microbatches;
  double forward_s;
  double backward_s;
  double latency_s;
  double bytes = 1;  // SimGrid needs some size: it takes no time below
  double bytes_per_s = 1e18;
};

class Rank {
 public:
  Rank(const Problem& problem, int index, std::vector<double>& ends)
      : problem_(problem), index_(index), ends_(ends) {}

  void operator()() {
    from_previous_ = mailbox(index_ - 1, index_);
    from_next_ = mailbox(index_ + 1, index_);
    from_previous_->set_receiver(sg::Actor::self());
    from_next_->set_receiver(sg::Actor::self());
    to_previous_ = mailbox(index_, index_ - 1);
    to_next_ = mailbox(index_, index_ + 1);
    sg::this_actor::yield();  // every rank has posted its receives
    const int m = problem_.microbatches;
    const int warmup = std::min(m, problem_.stages - 1 - index_);
    for (int i = 0; i < warmup; ++i) forward();
    for (int i = warmup; i < m; ++i) {
      forward();
      backward();
    }
    for (int i = 0; i < warmup; ++i) backward();
    ends_[static_cast<std::size_t>(index_)] = sg::Engine::get_clock();
  }

 private:
  static sg::Mailbox* mailbox(int from, int to) {
    return sg::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to));
  }
  void forward() {
    if (index_ > 0) from_previous_->get<char>();
    sg::this_actor::sleep_for(problem_.forward_s);
    if (index_ + 1 < problem_.stages) send(to_next_);
  }
  void backward() {
    if (index_ + 1 < problem_.stages) from_next_->get<char>();
    sg::this_actor::sleep_for(problem_.backward_s);
    if (index_ > 0) send(to_previous_);
  }
  void send(sg::Mailbox* to) {
    static char content;
    to->put_init(&content, static_cast<std::uint64_t>(problem_.bytes))->detach();
  }

  const Problem& problem_;
  int index_;
  std::vector<double>& ends_;
  sg::Mailbox* from_previous_ = nullptr;
  sg::Mailbox* from_next_ = nullptr;
  sg::Mailbox* to_previous_ = nullptr;
  sg::Mailbox* to_next_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  xbt_log_control_set("xbt_cfg.thresh:warning");  // does not log the settings below
  sg::Engine engine(&argc, argv);
  if (argc != 6 && argc != 8) {
    std::fprintf(stderr,
                 "usage: simgrid_1f1b STAGES MICROBATCHES FORWARD_NS BACKWARD_NS LATENCY_NS "
                 "[BYTES BYTES_PER_S]\n");
    return 2;
  }
  const auto seconds = [&](int i) { return std::atof(argv[i]) / 1e9; };
  Problem problem{std::atoi(argv[1]), std::atoi(argv[2]), seconds(3), seconds(4), seconds(5)};
  if (argc == 8) {
    problem.bytes = std::atof(argv[6]);
    problem.bytes_per_s = std::atof(argv[7]);
  }
  sg::Engine::set_config("network/model:CM02");
  sg::Engine::set_config("network/TCP-gamma:0");
  sg::Engine::set_config("network/crosstraffic:0");

  auto* zone = sg::create_full_zone("machine");
  std::vector<sg::Host*> hosts;
  for (int r = 0; r < problem.stages; ++r) {
    hosts.push_back(zone->create_host("rank" + std::to_string(r), 1e9)->seal());
  }
  const auto connect = [&](int a, int b) {
    auto* link = zone->create_link(std::to_string(a) + ">" + std::to_string(b), problem.bytes_per_s)
                     ->set_latency(problem.latency_s)
                     ->seal();
    zone->add_route(hosts[static_cast<std::size_t>(a)]->get_netpoint(),
                    hosts[static_cast<std::size_t>(b)]->get_netpoint(), nullptr, nullptr,
                    {sg::LinkInRoute(link)}, false);
  };
  for (int r = 0; r + 1 < problem.stages; ++r) {
    connect(r, r + 1);
    connect(r + 1, r);
  }
  zone->seal();
  std::vector<double> ends(static_cast<std::size_t>(problem.stages));
  for (int r = 0; r < problem.stages; ++r) {
    sg::Actor::create("rank", hosts[static_cast<std::size_t>(r)], Rank(problem, r, ends));
  }
  engine.run();
  std::printf("%.6f\n", *std::max_element(ends.begin(), ends.end()) * 1e3);
  return 0;
}
