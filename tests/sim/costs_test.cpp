// costs.json: what is read, what is refused and how, layers and layouts.
#include "sim/cost/costs.h"

#include <gtest/gtest.h>

#include "sim/cost/layout.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::string costs_json(const std::string& rest) {
  return R"({"format":"pipesim-costs","version":1,)" + rest + "}";
}
const std::string two_stages =
    R"("stages":[{"forward_ns":1,"backward_ns":5},{"forward_ns":2,"backward_input_ns":3,"backward_weight_ns":4}])";

std::string costs_error(const std::string& text) {
  return testing::input_error_of([&] { parse_costs(text, "c.json"); });
}

TEST(Costs, SplitsABackwardRoundingDown) {
  const Costs costs = parse_costs(costs_json(two_stages), "c.json").costs;
  EXPECT_EQ(costs.stages[0].backward_input_ns, 2);
  EXPECT_EQ(costs.stages[0].backward_weight_ns, 3);
  EXPECT_EQ(costs.stages[1].backward_ns(), 7);
}

TEST(Costs, AnActionTakesItsMessagesToo) {
  StageCosts stage;
  stage.forward_ns = 10;
  stage.backward_input_ns = 20;
  stage.backward_weight_ns = 30;
  EXPECT_EQ(stage.messages_ns(), 0);
  EXPECT_EQ(stage.duration_ns(Kind::B), stage.backward_ns());
  stage.forward_messages_ns = 1;
  stage.backward_messages_ns = 2;
  EXPECT_EQ(stage.messages_ns(), 3);
  EXPECT_EQ(stage.duration_ns(Kind::F), 11);
  EXPECT_EQ(stage.duration_ns(Kind::I), 22);
  EXPECT_EQ(stage.duration_ns(Kind::W), 30);
  EXPECT_EQ(stage.duration_ns(Kind::B), 52);
}

// What receiving takes is none of the pass's time, and nothing where a stage's neighbour is on
// its rank.
TEST(Costs, ReceivingTakesTimeOfMessages) {
  const std::string received = R"(,"p2p":{"receive_ns":7})";
  const std::string stage = R"({"forward_ns":1,"backward_ns":5,"forward_messages_ns":100})";
  const CostsFile by_stage = parse_costs(
      costs_json(R"("stages":[)" + stage + "," + stage + "," + stage + "]" + received), "c.json");
  const Placement placement({0, 1, 1});
  const Costs costs = by_stage.resolve(placement, {});
  const std::int64_t forward[] = {100, 107, 100};
  const std::int64_t backward[] = {7, 0, 0};
  for (std::size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(costs.stages[s].forward_ns, 1);
    EXPECT_EQ(costs.stages[s].backward_input_ns, 2);
    EXPECT_EQ(costs.stages[s].forward_messages_ns, forward[s]);
    EXPECT_EQ(costs.stages[s].backward_messages_ns, backward[s]);
  }
  EXPECT_EQ(by_stage.costs.stages[1].forward_messages_ns, 100);
  const std::string layer = R"({"forward_ns":1,"backward_ns":5})";
  const CostsFile by_layer = parse_costs(
      costs_json(R"("layers":[)" + layer + "," + layer + "," + layer + "]" + received), "c.json");
  const Costs laid_out = by_layer.resolve(Placement::loop(2, 1), parse_layout("1,2").layers);
  EXPECT_EQ(laid_out.stages[1].forward_ns, 2);
  EXPECT_EQ(laid_out.stages[1].forward_messages_ns, 7);
  EXPECT_EQ(laid_out.stages[0].backward_messages_ns, 7);
  EXPECT_EQ(laid_out.stages[0].forward_messages_ns, 0);
}

TEST(Costs, EdgesOverrideTheLinkInPart) {
  const Costs costs =
      parse_costs(
          costs_json(
              two_stages +
              R"(,"p2p":{"latency_ns":7,"bandwidth_bytes_per_s":2e9,"edges":[)"
              R"({"from":0,"to":1,"latency_ns":9},{"from":1,"to":0,"bandwidth_bytes_per_s":null}]})"),
          "c.json")
          .costs;
  EXPECT_EQ(costs.link(0, 1), (Link{9, 2'000'000'000}));
  EXPECT_EQ(costs.link(1, 0), (Link{7, std::nullopt}));
  EXPECT_EQ(costs.link(1, 2), (Link{7, 2'000'000'000}));
  EXPECT_EQ(costs.occupied_ns(costs.link(0, 1), 3), 2);
}

TEST(Costs, EdgesGoThroughLinksThatTheyShare) {
  const Costs costs =
      parse_costs(
          costs_json(
              two_stages +
              R"(,"p2p":{"bandwidth_bytes_per_s":2e9,"compute_slowdown":0.25,)"
              R"("links":[{"name":"a","bandwidth_bytes_per_s":1e9},)"
              R"({"name":"b","bandwidth_bytes_per_s":5e8}],)"
              R"("edges":[{"from":0,"to":1,"links":["b","a"]},{"from":1,"to":0,"links":[]}]})"),
          "c.json")
          .costs;
  EXPECT_EQ(costs.shared_links,
            (std::vector<SharedLink>{{"a", 1'000'000'000}, {"b", 500'000'000}}));
  EXPECT_EQ(costs.link(0, 1), (Link{0, 2'000'000'000, {1, 0}}));
  EXPECT_EQ(costs.compute_slowdown_ppm, 250'000);
  EXPECT_EQ(costs.occupied_ns(costs.link(0, 1), 3), 6);
  EXPECT_EQ(costs.occupied_ns(costs.link(1, 0), 3), 2);
  const Costs again = parse_costs(to_json(costs), "again.json").costs;
  EXPECT_EQ(again.shared_links, costs.shared_links);
  EXPECT_EQ(again.edges, costs.edges);
  EXPECT_EQ(again.compute_slowdown_ppm, costs.compute_slowdown_ppm);
}

TEST(Costs, ReserveMemoryOfEachRank) {
  const CostsFile file =
      parse_costs(costs_json(two_stages + R"(,"reserved_bytes":1024)"), "c.json");
  EXPECT_EQ(file.costs.reserved_bytes, 1024);
  EXPECT_EQ(parse_costs(to_json(file), "again.json").costs.reserved_bytes, 1024);
  EXPECT_EQ(parse_costs(to_json(file.costs), "again.json").costs.reserved_bytes, 1024);
  EXPECT_EQ(to_json(parse_costs(costs_json(two_stages), "c.json")).find("reserved"),
            std::string::npos);
}

TEST(Costs, SayWhatStagesExchangeAndRanksHold) {
  Costs costs;
  costs.stages.resize(3);
  for (int s = 0; s < 3; ++s) {
    StageCosts& stage = costs.stages[static_cast<std::size_t>(s)];
    stage.output_bytes = 10 + s;
    stage.weight_bytes = 100 + s;
    stage.optimizer_bytes = 1;
  }
  const Placement placement({0, 1, 1});  // stages 1 and 2 exchange nothing
  const auto prints = costs.footprints(placement);
  EXPECT_EQ(prints[0].forward_input_bytes, 0);
  EXPECT_EQ(prints[0].forward_output_bytes, 10);
  EXPECT_EQ(prints[0].backward_input_bytes, 10);
  EXPECT_EQ(prints[0].backward_output_bytes, 0);
  EXPECT_EQ(prints[1].forward_input_bytes, 10);
  EXPECT_EQ(prints[1].forward_output_bytes, 0);
  EXPECT_EQ(prints[1].backward_output_bytes, 10);
  EXPECT_EQ(prints[2].forward_input_bytes, 0);
  EXPECT_EQ(prints[2].backward_output_bytes, 0);
  const auto states = costs.states(placement);
  EXPECT_EQ(states[0].total(), 101);
  EXPECT_EQ(states[1].weights, 203);
  EXPECT_EQ(states[1].optimizer, 2);
}

TEST(Costs, LayersTogetherMayTakeWhatAStageMay) {
  const std::string layer = R"({"forward_ns":600000000000000,"backward_ns":1})";
  const CostsFile file =
      parse_costs(costs_json(R"("layers":[)" + layer + "," + layer + "]"), "c.json");
  EXPECT_EQ(file.resolve(Placement::loop(2, 1), std::nullopt).stages.size(), 2U);
  EXPECT_NE(testing::input_error_of([&] {
              file.resolve(Placement::loop(1, 1), std::nullopt);
            }).find("c.json: the layers of a stage together exceed 1000000000000000 ns"),
            std::string::npos);
}

TEST(Costs, LayersAreSummedByTheLayout) {
  const CostsFile file = parse_costs(
      costs_json(R"("layers":[{"forward_ns":1,"backward_ns":3,"weight_bytes":10,"output_bytes":5},)"
                 R"({"forward_ns":2,"backward_ns":3,"weight_bytes":20,"output_bytes":6},)"
                 R"({"forward_ns":4,"backward_ns":3,"weight_bytes":40,"output_bytes":7}],)"
                 R"("optimizer_ns":9,"reduce_gradients_ns":[1,2])"),
      "c.json");
  const Placement two = Placement::loop(2, 1);
  const Costs even = file.resolve(two, std::nullopt);  // 2,1
  EXPECT_EQ(even.stages[0].forward_ns, 3);
  EXPECT_EQ(even.stages[0].backward_input_ns, 2);
  EXPECT_EQ(even.stages[0].backward_weight_ns, 4);
  EXPECT_EQ(even.stages[0].weight_bytes, 30);
  EXPECT_EQ(even.stages[0].output_bytes, 6);
  EXPECT_EQ(even.optimizer_ns, (std::vector<std::int64_t>{9, 9}));
  EXPECT_EQ(file.resolve(two, parse_layout("1,2").layers).stages[1].forward_ns, 6);
  EXPECT_THROW(file.resolve(two, parse_layout("1,1").layers), Error);
  EXPECT_THROW(file.resolve(two, parse_layout("1,1,1").layers), Error);
  EXPECT_THROW(file.resolve(Placement::loop(4, 1), std::nullopt), Error);
  EXPECT_EQ(even_layout(9, 4), (std::vector<int>{3, 2, 2, 2}));
}

TEST(Layout, ReadsMegatronsStringAndFiles) {
  std::vector<int> deepseek{4};
  deepseek.insert(deepseek.end(), 29, 2);
  deepseek.insert(deepseek.end(), {1, 1});
  EXPECT_EQ(parse_layout("Et*3|(tt|)*29,m|L").layers, deepseek);
  EXPECT_EQ(parse_layout("Ett|ttL").layers, (std::vector<int>{3, 3}));
  EXPECT_EQ(parse_layout("(t*2|)*2t").layers, (std::vector<int>{2, 2, 1}));
  EXPECT_EQ(parse_layout(" 3, 2,2 ").layers, (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(parse_layout("7").layers, (std::vector<int>{7}));
  EXPECT_EQ(parse_layout("Et*3|(tt|)*2,m|L").letters, "EtttttttmL");
  EXPECT_EQ(parse_layout("3,2").letters, "");
  const testing::TemporaryFolder folder;
  write_file(folder / "layout.txt", "Et|tL\n");
  EXPECT_EQ(parse_layout(folder / "layout.txt").layers, (std::vector<int>{2, 2}));
  for (const char* text :
       {"", "3,0,1", "3,,1", "3,-1", "Et||L", "Et|x|L", "(tt|", "tt|)", "t*|t", "t*0|t",
        "t*99999999|t", "((((((((((((((((((t|))))))))))))))))))t", "no/such/file"}) {
    EXPECT_THROW(parse_layout(text), Error) << text;
  }
}

TEST(Costs, WrittenAndReadAgain) {
  Costs costs =
      parse_costs(costs_json(two_stages + R"(,"p2p":{"latency_ns":7,"edges":[{"from":0,"to":1,)"
                                          R"("latency_ns":9}],"links":[{"name":"a",)"
                                          R"("bandwidth_bytes_per_s":3e9}]},)"
                                          R"("optimizer_ns":[1,2],)"
                                          R"("gradient_norm":{"latency_ns":3},)"
                                          R"("tied_gradients":{"bytes":7,"links":["a"],)"
                                          R"("bandwidth_bytes_per_s":2e9})"),
                  "c.json")
          .costs;
  const std::string silent = to_json(costs);
  EXPECT_EQ(silent.find("messages"), std::string::npos) << silent;
  costs.stages[0].overlap_ns = 4;
  costs.stages[0].forward_messages_ns = 5;
  costs.stages[1].backward_messages_ns = max_time_ns - 3;
  const Costs again = parse_costs(to_json(costs), "c.json").costs;
  EXPECT_EQ(again.stages, costs.stages);
  EXPECT_EQ(again.p2p, costs.p2p);
  EXPECT_EQ(again.edges, costs.edges);
  EXPECT_EQ(again.optimizer_ns, costs.optimizer_ns);
  EXPECT_EQ(again.gradient_norm, (GroupCosts{.latency_ns = 3}));
  EXPECT_EQ(again.tied_gradients,
            (GroupCosts{.bytes = 7, .bytes_per_second = 2'000'000'000, .through = {0}}));
  EXPECT_EQ(again.group_ns(Kind::REDUCE_TIED, Placement::loop(2, 1)), 4);
  EXPECT_EQ(again.group_ns(Kind::REDUCE_TIED, Placement::v(2, 2)), 0);
  EXPECT_EQ(to_json(again), to_json(costs));
}

TEST(Costs, OfSavesAreWrittenAndReadAgain) {
  const CostsFile file = parse_costs(
      costs_json(two_stages + R"(,"save":{"bytes":[7,9],"writers":3,"bandwidth_bytes_per_s":2e9,)"
                              R"("sync_ns":4,"publish_ns":5,"copy_bandwidth_bytes_per_s":null})"),
      "c.json");
  const SaveCosts want{.bytes = {7, 9},
                       .writers = 3,
                       .bytes_per_second = 2'000'000'000,
                       .sync_ns = 4,
                       .publish_ns = 5};
  EXPECT_EQ(file.costs.save, want);
  EXPECT_EQ(parse_costs(to_json(file), "c.json").costs.save, want);
  EXPECT_EQ(parse_costs(to_json(file.costs), "c.json").costs.save, want);
  // One number is every rank's, once it is known how many there are.
  const CostsFile every = parse_costs(costs_json(two_stages + R"(,"save":{"bytes":6})"), "c.json");
  EXPECT_EQ(every.resolve(Placement::loop(2, 1), {}).save->bytes,
            (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(parse_costs(to_json(every), "c.json").save_bytes, 6);
  // Without bytes they are still to be told.
  const CostsFile silent = parse_costs(costs_json(two_stages + R"(,"save":{})"), "c.json");
  EXPECT_EQ(silent.resolve(Placement::loop(2, 1), {}).save, SaveCosts());
  EXPECT_EQ(to_json(parse_costs(to_json(silent), "c.json")), to_json(silent));
  EXPECT_FALSE(parse_costs(costs_json(two_stages), "c.json").costs.save);
  EXPECT_EQ(to_json(parse_costs(costs_json(two_stages), "c.json")).find("save"), std::string::npos);
}

// `@` marks the place that the error must name.
TEST(Costs, PointsAtWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"@", "not JSON: The document is empty."},
      {"@[]", "must be an object"},
      {"@{}", "key 'format' is missing"},
      {R"({"format":@"other","version":1})", "format: 'other' is not 'pipesim-costs'"},
      {R"({"format":"pipesim-costs","version":@2})", "version: this program reads version 1"},
      {"@" + costs_json(R"("x":1)"), "give either stages"},
      {costs_json(two_stages + R"(,"stage":@1)"),
       "unknown key 'stage'; known, nearest first: stages,"},
      {costs_json(R"("stages":@[])"), "stages: an empty list"},
      {costs_json(R"("stages":[@{"forward_ns":1}])"), "stages[0]: a backward is missing"},
      {costs_json(R"("stages":[{"forward_ns":@-1,"backward_ns":1}])"),
       "stages[0].forward_ns: -1 is out of range"},
      {costs_json(R"("stages":[{"forward_ns":@1.5,"backward_ns":1}])"),
       "stages[0].forward_ns: 1.5 is not a whole number"},
      {costs_json(R"("stages":[{"forward_ns":@1e300,"backward_ns":1}])"),
       "stages[0].forward_ns: 1e+300 is out of range"},
      {costs_json(R"("stages":[{"forward_ns":@99999999999999999999,"backward_ns":1}])"),
       "stages[0].forward_ns: 1e+20 is out of range"},
      {costs_json(R"("stages":[{"forward_ns":@"1","backward_ns":1}])"),
       "stages[0].forward_ns: must be a number"},
      {costs_json(R"("stages":[@{"forward_ns":1,"backward_ns":1,"backward_input_ns":1}])"),
       "stages[0]: give backward_ns, or"},
      {costs_json(R"("stages":[@{"forward_ns":1,"backward_input_ns":1}])"),
       "stages[0]: key 'backward_weight_ns' is missing"},
      {costs_json(R"("stages":[{"forward_ns":1,"forward_ns":@1,"backward_ns":1}])"),
       "key 'forward_ns'"},
      {costs_json(R"("layers":[{"forward_ns":1,"backward_ns":1,"overlap_ns":@1}])"),
       "layers[0]: unknown key 'overlap_ns'"},
      {costs_json(R"("layers":[{"forward_ns":1,"backward_ns":1,"forward_messages_ns":@1}])"),
       "layers[0]: unknown key 'forward_messages_ns'"},
      {costs_json(R"("stages":[{"forward_ns":1,"backward_ns":1,"backward_messages_ns":@-1}])"),
       "stages[0].backward_messages_ns: -1 is out of range"},
      {costs_json(R"("stages":[{"forward_ns":1,"backward_ns":1,"forward_messages_ns":@1e16}])"),
       "stages[0].forward_messages_ns: 1e+16 is out of range"},
      {costs_json(
           R"("stages":[{"forward_ns":999999999999998,"backward_ns":1,"forward_messages_ns":@3}])"),
       "stages[0].forward_messages_ns: 3 and 999999999999998 ns of F are more than "
       "1000000000000000 ns; use smaller times"},
      {costs_json(two_stages + R"(,"p2p":{"bandwidth_bytes_per_s":@0})"),
       "p2p.bandwidth_bytes_per_s: 0 is out of range"},
      {costs_json(two_stages + R"(,"p2p":{"edges":[@{"from":0,"to":0}]})"),
       "p2p.edges[0]: an edge joins two different ranks"},
      {costs_json(two_stages + R"(,"p2p":{"edges":[{"from":0,"to":1,"links":[@"a"]}]})"),
       "p2p.edges[0].links[0]: names a link, but p2p.links lists none"},
      {costs_json(two_stages + R"(,"p2p":{"links":[{"name":"a","bandwidth_bytes_per_s":1}],)" +
                  R"("edges":[{"from":0,"to":1,"links":[@"b"]}]})"),
       "p2p.edges[0].links[0]: unknown link 'b'; known"},
      {costs_json(two_stages + R"(,"p2p":{"links":[{"name":"a","bandwidth_bytes_per_s":1}],)" +
                  R"("edges":[{"from":0,"to":1,"links":["a",@"a"]}]})"),
       "p2p.edges[0].links[1]: is named twice"},
      {costs_json(two_stages + R"(,"p2p":{"links":[{"name":"a","bandwidth_bytes_per_s":1},)" +
                  R"(@{"name":"a","bandwidth_bytes_per_s":2}]})"),
       "p2p.links[1]: link 'a' is given twice"},
      {costs_json(two_stages + R"(,"p2p":{"links":[{"name":"a","bandwidth_bytes_per_s":@null}]})"),
       "p2p.links[0].bandwidth_bytes_per_s: must be a number"},
      {costs_json(two_stages + R"(,"p2p":{"compute_slowdown":@-0.1})"),
       "p2p.compute_slowdown: -0.1 is out of range: it must lie between 0 and 100"},
      {costs_json(two_stages + R"(,"p2p":{"compute_slowdown":@"10%"})"),
       "p2p.compute_slowdown: must be a number"},
      {costs_json(two_stages + R"(,"save":@5)"), "save: must be an object"},
      {costs_json(two_stages + R"(,"save":{"bytes":@[]})"),
       "save.bytes: an empty list; give one number, or one per rank"},
      {costs_json(two_stages + R"(,"save":{"bytes":[1,@-1]})"),
       "save.bytes[1]: -1 is out of range"},
      {costs_json(two_stages + R"(,"save":{"bytes":5,"writers":@0})"),
       "save.writers: 0 is out of range"},
      {costs_json(two_stages + R"(,"save":{"writers":@2})"),
       "save.writers: they follow from replicas if bytes do; give bytes, too"},
      {costs_json(two_stages + R"(,"save":{"bandwidth_bytes_per_s":@0})"),
       "save.bandwidth_bytes_per_s: 0 is out of range"},
      {costs_json(two_stages + R"(,"save":{"copy_bandwidth_bytes_per_s":@"1GB/s"})"),
       "save.copy_bandwidth_bytes_per_s: must be a number"},
      {costs_json(two_stages + R"(,"save":{"sync_ns":@1.5})"),
       "save.sync_ns: 1.5 is not a whole number"},
      {costs_json(two_stages + R"(,"save":{"publish_ns":@-3})"),
       "save.publish_ns: -3 is out of range"},
      {costs_json(two_stages + R"(,"save":{"latency_ns":@3})"), "save: unknown key 'latency_ns'"},
      {costs_json(two_stages + R"(,"optimizer_ns":@[])"), "optimizer_ns: an empty list"},
      {costs_json(two_stages + R"(,"gradient_norm":@5)"), "gradient_norm: must be an object"},
      {costs_json(two_stages + R"(,"gradient_norm":{"latency_ns":@-1})"),
       "gradient_norm.latency_ns: -1 is out of range"},
      {costs_json(two_stages + R"(,"tied_gradients":{"parts":@2})"),
       "tied_gradients: unknown key 'parts'"},
      {costs_json(two_stages + R"(,"collectives":@[])"), "collectives: an empty list"},
      {costs_json(two_stages + R"(,"collectives":{"links":[@"a"]})"),
       "collectives.links[0]: names a link, but p2p.links lists none"},
      {costs_json(R"("stages":[{"forward_ns":1,"backward_ns":1,"reduce":{"bytes":@0}}])"),
       "stages[0].reduce.bytes: 0 is out of range"},
      {costs_json(R"("stages":[{"forward_ns":1,"backward_ns":1,"unsharded_bytes":@5}])"),
       "stages[0].unsharded_bytes: without unshard nothing is gathered; give both"},
  };
  for (const auto& [marked, rule] : cases) {
    const std::size_t at = marked.find('@');
    std::string text = marked;
    text.erase(at, 1);
    const std::string want = "c.json:1:" + std::to_string(at + 1) + ": " + rule;
    EXPECT_EQ(costs_error(text).substr(0, want.size()), want) << "for " << text;
  }
}

const std::string sharded_stages =
    R"("stages":[{"forward_ns":1,"backward_ns":5,)"
    R"("unshard":{"latency_ns":7,"bytes":100,"parts":4},"unsharded_bytes":900,)"
    R"("reduce":{"bytes":200}},{"forward_ns":2,"backward_ns":7}],)"
    R"("p2p":{"links":[{"name":"card","bandwidth_bytes_per_s":9}]})";

TEST(Costs, SayWhatReplicasExchange) {
  const CostsFile file = parse_costs(
      costs_json(sharded_stages +
                 R"(,"collectives":[{"bandwidth_bytes_per_s":5e8,"links":["card"]},{}])"),
      "c.json");
  const Costs costs = file.resolve(Placement::loop(2, 1), {});
  EXPECT_EQ(costs.stages[0].unshard, (CollectiveCosts{7, 100, 4}));
  EXPECT_EQ(costs.stages[0].unsharded_bytes, 900);
  EXPECT_EQ(costs.stages[0].reduce, (CollectiveCosts{0, 200, 1}));
  EXPECT_FALSE(costs.stages[1].unshard.exists());
  EXPECT_EQ(costs.collective_link(0), (Link{0, 500'000'000, {0}}));
  EXPECT_EQ(costs.collective_link(1), Link{});
  // One for all ranks.
  const Costs alike =
      parse_costs(costs_json(sharded_stages + R"(,"collectives":{"links":["card"]})"), "c")
          .resolve(Placement::loop(2, 1), {});
  EXPECT_EQ(alike.collective_links, (std::vector<Link>(2, Link{0, {}, {0}})));
}

TEST(Costs, OfReplicasAreWrittenAndReadAgain) {
  for (const char* collectives :
       {"", R"(,"collectives":{"bandwidth_bytes_per_s":70})",
        R"(,"collectives":[{"bandwidth_bytes_per_s":5,"links":["card"]},{"links":["card"]}])"}) {
    const CostsFile file = parse_costs(costs_json(sharded_stages + collectives), "c.json");
    const Costs costs = file.resolve(Placement::loop(2, 1), {});
    const Costs again = parse_costs(to_json(costs), "again").costs;
    EXPECT_EQ(again.stages, costs.stages);
    EXPECT_EQ(again.collective_links, costs.collective_links);
    EXPECT_EQ(to_json(again), to_json(costs));
    const CostsFile same = parse_costs(to_json(file), "same");
    EXPECT_EQ(to_json(same), to_json(file));
    EXPECT_EQ(to_json(same.resolve(Placement::loop(2, 1), {})), to_json(costs));
  }
  // Costs without any say nothing of them.
  const std::string plain = to_json(parse_costs(costs_json(two_stages), "c.json").costs);
  for (const char* key : {"unshard", "reduce", "collectives"}) {
    EXPECT_EQ(plain.find(key), std::string::npos);
  }
}

TEST(Costs, OfReplicasAddUpOverLayers) {
  const std::string layers =
      R"("layers":[{"forward_ns":1,"backward_ns":2,"unshard":{"bytes":10,"latency_ns":3},)"
      R"("unsharded_bytes":40},{"forward_ns":1,"backward_ns":2},)"
      R"({"forward_ns":1,"backward_ns":2,"unshard":{"bytes":20,"latency_ns":4,"parts":2},)"
      R"("unsharded_bytes":50,"reduce":{"bytes":8}}])";
  const Costs costs = parse_costs(costs_json(layers), "c.json").resolve(Placement::loop(1, 1), {});
  EXPECT_EQ(costs.stages[0].unshard, (CollectiveCosts{7, 30, 3}));
  EXPECT_EQ(costs.stages[0].unsharded_bytes, 90);
  EXPECT_EQ(costs.stages[0].reduce, (CollectiveCosts{0, 8, 1}));
}

TEST(Costs, OfReplicasAreChecked) {
  const auto fails = [](const Costs& costs) {
    return testing::input_error_of([&] { costs.check(Placement::loop(2, 1), 10, "c.json"); });
  };
  Costs costs = parse_costs(costs_json(two_stages), "c.json").costs;
  costs.stages[1].reduce = {max_time_ns, 1, 1};
  EXPECT_EQ(fails(costs), testing::no_error);
  costs.collective_links = {{}, {0, 1}};
  costs.stages[1].reduce.bytes = max_bytes;
  EXPECT_EQ(fails(costs),
            "c.json: the times of all actions together exceed what 64 bits hold; use smaller costs "
            "or fewer microbatches");
  costs.stages[1].reduce.bytes = 1;
  costs.collective_links[0].through = {0};
  EXPECT_EQ(fails(costs), "c.json: collectives of rank 0 go through a link that does not exist");
  costs.collective_links.resize(1);
  EXPECT_EQ(fails(costs), "c.json: collectives has 1 entry but the schedule has 2 ranks");
  costs.collective_links.clear();
  costs.reduce_gradients_ns = {1, 1};
  EXPECT_EQ(fails(costs),
            "c.json: both reduce_gradients_ns and a stage's reduce give a reduction's time; keep "
            "one");
}

TEST(Costs, ChecksThemselvesAgainstASchedule) {
  const Costs costs = parse_costs(costs_json(two_stages), "c.json").costs;
  const auto fails = [](const Costs& c, const Placement& p, int m) {
    try {
      c.check(p, m, "c.json");
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(fails(costs, Placement::loop(2, 1), 1000));
  EXPECT_TRUE(fails(costs, Placement::loop(3, 1), 1));
  Costs long_ones = costs;
  long_ones.stages[0].forward_ns = 1'000'000'000'000'000;
  EXPECT_FALSE(fails(long_ones, Placement::loop(2, 1), 1000));
  EXPECT_TRUE(fails(long_ones, Placement::loop(2, 1), 10'000));
  long_ones.stages[0].forward_ns = long_ones.stages[0].forward_messages_ns = max_time_ns / 2;
  EXPECT_TRUE(fails(long_ones, Placement::loop(2, 1), 10'000));
  EXPECT_FALSE(fails(long_ones, Placement::loop(2, 1), 1000));
  long_ones.stages[0].forward_messages_ns += 1;
  EXPECT_EQ(testing::input_error_of([&] { long_ones.check(Placement::loop(2, 1), 1, "c.json"); }),
            "c.json: stage 0: F with its messages takes 1000000000000001 ns, more than "
            "1000000000000000 ns; use smaller costs");
  Costs received = costs;
  received.stages[1].backward_messages_ns = max_time_ns;
  EXPECT_EQ(testing::input_error_of([&] { received.check(Placement::loop(2, 1), 1, "c.json"); }),
            "c.json: stage 1: I with its messages takes 1000000000000003 ns, more than "
            "1000000000000000 ns; use smaller costs");
  Costs slow = costs;
  slow.stages[0].output_bytes = std::int64_t{1} << 50;
  slow.p2p.bytes_per_second = 1;
  EXPECT_TRUE(fails(slow, Placement::loop(2, 1), 1));
  Costs slowed = costs;
  slowed.stages[0].forward_ns = 1'000'000'000'000'000;
  EXPECT_FALSE(fails(slowed, Placement::loop(2, 1), 4000));
  slowed.compute_slowdown_ppm = 1'000'000;
  EXPECT_TRUE(fails(slowed, Placement::loop(2, 1), 4000));
  Costs local = costs;  // what stays on a rank takes no link
  local.stages[0].output_bytes = std::int64_t{1} << 50;
  local.p2p.bytes_per_second = 1;
  EXPECT_TRUE(fails(local, Placement::loop(2, 1), 1));
  EXPECT_FALSE(fails(local, Placement({0, 0}), 1));
  Costs through = costs;
  through.edges[{0, 1}] = {0, {}, {0}};
  EXPECT_TRUE(fails(through, Placement::loop(2, 1), 1));
  Costs edge = costs;
  edge.edges[{0, 5}] = {};
  EXPECT_TRUE(fails(edge, Placement::loop(2, 1), 1));
  Costs closing = costs;
  closing.optimizer_ns = {1, 2, 3};
  EXPECT_TRUE(fails(closing, Placement::loop(2, 1), 1));
}

}  // namespace
}  // namespace pipesim
