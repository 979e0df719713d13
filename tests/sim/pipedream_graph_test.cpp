// PipeDream's graphs: what is read, in which order, what cuts carry, what is refused.
#include "sim/cost/pipedream_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::string node_line(int number, const std::string& description, const std::string& activation,
                      const std::string& forward = "1.000", const std::string& backward = "2.000",
                      const std::string& parameters = "0.000") {
  return "node" + std::to_string(number) + " -- " + description +
         " -- forward_compute_time=" + forward + ", backward_compute_time=" + backward +
         ", activation_size=" + activation + ", parameter_size=" + parameters + "\n";
}
std::string edge_line(int from, int to) {
  return "\tnode" + std::to_string(from) + " -- node" + std::to_string(to) + "\n";
}

PipedreamGraph parse(const std::string& text) { return parse_pipedream_graph(text, "g.txt"); }

std::vector<std::int64_t> cuts(const PipedreamGraph& graph) {
  std::vector<std::int64_t> bytes;
  for (const StageCosts& layer : graph.costs.layers) bytes.push_back(layer.output_bytes);
  return bytes;
}
std::vector<int> numbers(const PipedreamGraph& graph) {
  std::vector<int> result;
  for (const auto& layer : graph.layers) result.push_back(layer.number);
  return result;
}

using Bytes = std::vector<std::int64_t>;
using Numbers = std::vector<int>;

TEST(PipedreamGraph, HasEveryAttributeOfANode) {
  const PipedreamGraph graph = parse_pipedream_graph(
      node_line(7, "Conv2d(3, 64, kernel_size=(7, 7))", "4096.000", "0.539", "0.0000015", "1e3"),
      "g.txt", 2);
  ASSERT_EQ(graph.layers.size(), 1U);
  EXPECT_EQ(graph.layers[0].number, 7);
  EXPECT_EQ(graph.layers[0].description, "Conv2d(3, 64, kernel_size=(7, 7))");
  ASSERT_EQ(graph.costs.layers.size(), 1U);
  const StageCosts& layer = graph.costs.layers[0];
  EXPECT_EQ(layer.forward_ns, 539'000);
  EXPECT_EQ(layer.backward_input_ns, 1);
  EXPECT_EQ(layer.backward_weight_ns, 1);
  EXPECT_EQ(layer.activation_bytes, 4096);
  EXPECT_EQ(layer.weight_bytes, 1000);
  EXPECT_EQ(layer.gradient_bytes, 1000);
  EXPECT_EQ(layer.optimizer_bytes, 2000);
  EXPECT_EQ(layer.output_bytes, 0);
  EXPECT_EQ(graph.costs.name, "g.txt");
  EXPECT_TRUE(graph.inputs.empty());
}

TEST(PipedreamGraph, KeepsEveryNanosecondAndByteUpToTheLimits) {
  const StageCosts layer = parse(node_line(1, "A", "1125899906842623.0", "1e9", "999999999.999999",
                                           "1125899906842624.000"))
                               .costs.layers[0];
  EXPECT_EQ(layer.forward_ns, max_time_ns);
  EXPECT_EQ(layer.backward_ns(), 999'999'999'999'999);
  EXPECT_EQ(layer.activation_bytes, max_bytes - 1);
  EXPECT_EQ(layer.weight_bytes, max_bytes);
}

TEST(PipedreamGraph, AChainSendsWhatEachPutsOut) {
  const PipedreamGraph graph =
      parse(edge_line(2, 1) + node_line(3, "C", "30.0") + node_line(1, "A", "10.0") +
            node_line(2, "B", "20.0") + edge_line(1, 3));
  EXPECT_EQ(numbers(graph), (Numbers{2, 1, 3}));
  EXPECT_EQ(cuts(graph), (Bytes{20, 10, 0}));
}

TEST(PipedreamGraph, ADiamondCarriesBothBranches) {
  const PipedreamGraph graph =
      parse(node_line(1, "A", "1.0") + node_line(2, "B", "20.0") + node_line(3, "C", "300.0") +
            node_line(4, "Add", "4000.0") + edge_line(1, 2) + edge_line(1, 3) + edge_line(2, 4) +
            edge_line(3, 4));
  // Of A once, though two use it; and again behind B, as C is still to come.
  EXPECT_EQ(cuts(graph), (Bytes{1, 21, 320, 0}));
}

TEST(PipedreamGraph, ASkipIsCarriedUpToItsLastUse) {
  const PipedreamGraph graph =
      parse(node_line(1, "A", "1.0") + node_line(2, "B", "20.0") + node_line(3, "C", "300.0") +
            node_line(4, "D", "4000.0") + edge_line(1, 2) + edge_line(2, 3) + edge_line(3, 4) +
            edge_line(1, 4) + edge_line(1, 4) + edge_line(1, 3));
  EXPECT_EQ(cuts(graph), (Bytes{1, 21, 301, 0}));
}

TEST(PipedreamGraph, OfATupleOnlyItemsThatAreUsedAreCarried) {
  const std::string lstm = node_line(1, "LSTM(8, 8)", "[100.0; 20.0; 3.0]");
  const std::string items = node_line(2, "__getitem__(0)", "100.0") +
                            node_line(3, "__getitem__(2)", "3.0") + edge_line(1, 2) +
                            edge_line(1, 3);
  EXPECT_EQ(cuts(parse(lstm + items)), (Bytes{103, 3, 0}));
  EXPECT_EQ(parse(lstm + items).costs.layers[0].activation_bytes, 123);
  // One that takes it whole, before and behind the items.
  EXPECT_EQ(cuts(parse(lstm + items + node_line(4, "Cat", "7.0") + edge_line(1, 4))),
            (Bytes{123, 123, 123, 0}));
  EXPECT_EQ(cuts(parse(lstm + node_line(2, "Cat", "7.0") + node_line(3, "__getitem__(1)", "20.0") +
                       edge_line(1, 2) + edge_line(1, 3))),
            (Bytes{123, 20, 0}));
  // No index: the whole.
  EXPECT_EQ(cuts(parse(lstm + node_line(2, "__getitem__(slice(0, 2))", "120.0") + edge_line(1, 2))),
            (Bytes{123, 0}));
  // Where the profile does not list what the tuple holds, an item takes it whole.
  EXPECT_EQ(cuts(parse(node_line(1, "hidden", "50.0") + node_line(2, "__getitem__(3)", "5.0") +
                       edge_line(1, 2))),
            (Bytes{50, 0}));
  EXPECT_EQ(cuts(parse(node_line(1, "One", "[50.0]") + node_line(2, "__getitem__(0)", "50.0") +
                       edge_line(1, 2))),
            (Bytes{50, 0}));
}

TEST(PipedreamGraph, InputsAreNoLayers) {
  const PipedreamGraph graph =
      parse(node_line(1, "Input", "9.0", "600.0") + node_line(2, "Input17", "9.0") +
            node_line(3, "InputNorm()", "1.0") + node_line(4, "Input3", "20.0") +
            node_line(5, "Add", "3.0") + edge_line(1, 4) + edge_line(2, 5) + edge_line(4, 5) +
            edge_line(1, 5) + edge_line(3, 5));
  EXPECT_EQ(graph.inputs, (std::vector<PipedreamGraph::Node>{{1, "Input"}, {2, "Input17"}}));
  EXPECT_EQ(numbers(graph), (Numbers{3, 4, 5}));
  EXPECT_EQ(cuts(graph), (Bytes{1, 21, 0}));
}

TEST(PipedreamGraph, ReadsWhateverADescriptionSays) {
  for (const std::string description :
       {"", "A(  (b): C(1, x=2)  )", "a -- b", "node7 -- node8", "stage_id=3", "-- --",
        "forward_compute_time=1", "\xff\x01"}) {
    const std::string text = node_line(5, description, "[1.0; 2.0]");
    EXPECT_EQ(parse(text).layers[0].description, description);
    const std::string staged = text.substr(0, text.size() - 1) + " -- stage_id=12";
    EXPECT_EQ(parse(staged).layers[0].description, description);
    EXPECT_EQ(parse(staged).costs.layers, parse(text).costs.layers);
  }
}

TEST(PipedreamGraph, EndsOfLinesAndBlanksDoNotMatter) {
  const std::string text = node_line(1, "A", "1.0") + node_line(2, "B", "2.0") + edge_line(1, 2);
  std::string other = "\xef\xbb\xbf\n";
  for (const char c : text) other += c == '\n' ? "  \r\n\r\n" : std::string(1, c);
  for (const std::string& same :
       {other, text.substr(0, text.size() - 1),
        node_line(1, "A", "1.0") + node_line(2, "B", "2.0") + "node1 -- node2"}) {
    EXPECT_EQ(parse(same).layers, parse(text).layers);
    EXPECT_EQ(parse(same).costs.layers, parse(text).costs.layers);
  }
}

// What a node of a sample says, by plain search.
struct Plain {
  std::string description;
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::vector<std::int64_t> tensors;
  bool is_list = false;
  std::int64_t parameters = 0;

  std::int64_t whole() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : tensors) sum += bytes;
    return sum;
  }
  bool is_input() const { return description.starts_with("Input"); }
};

// Digits with a point, as samples have them, in thousandths.
std::int64_t thousandths(const std::string& text) {
  const std::size_t point = text.find('.');
  const std::string places = (text.substr(point + 1) + "00").substr(0, 3);
  return std::stoll(text.substr(0, point)) * 1000 + std::stoll(places);
}

struct PlainGraph {
  std::map<int, Plain> nodes;
  std::vector<std::pair<int, int>> edges;

  explicit PlainGraph(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('\t')) {
        edges.emplace_back(std::stoi(line.substr(5)),
                           std::stoi(line.substr(line.find(" -- node") + 8)));
        continue;
      }
      const auto value = [&](const std::string& key) {
        const std::size_t at = line.find(key + "=") + key.size() + 1;
        return line.substr(at, line.find(',', at) - at);
      };
      Plain& one = nodes[std::stoi(line.substr(4))];
      const std::size_t at = line.find(" -- ") + 4;
      one.description = line.substr(at, line.find(" -- forward_compute_time") - at);
      one.forward_ns = thousandths(value("forward_compute_time")) * 1000;
      one.backward_ns = thousandths(value("backward_compute_time")) * 1000;
      one.parameters = thousandths(value("parameter_size")) / 1000;
      std::string sizes = value("activation_size");
      one.is_list = sizes.starts_with('[');
      std::erase_if(sizes, [](char c) { return c == '[' || c == ']' || c == ' '; });
      for (const std::string_view size : split(sizes, ';')) {
        one.tensors.push_back(thousandths(std::string(size)) / 1000);
      }
    }
  }

  bool is_edge(int from, int to) const {
    return std::ranges::find(edges, std::pair(from, to)) != edges.end();
  }

  // The layer that may come next, the smallest, again and again.
  Numbers order() const {
    Numbers order;
    std::set<int> done;
    for (const auto& [number, one] : nodes) {
      if (one.is_input()) done.insert(number);
    }
    while (done.size() < nodes.size()) {
      for (const auto& [number, one] : nodes) {
        if (done.contains(number)) continue;
        const bool waits = std::ranges::any_of(edges, [&, to = number](const auto& e) {
          return e.second == to && !done.contains(e.first);
        });
        if (waits) continue;
        order.push_back(number);
        done.insert(number);
        break;
      }
    }
    return order;
  }

  // Cut by cut, node by node, straight from the definition.
  std::int64_t carried(const Numbers& before, const Numbers& after) const {
    std::int64_t bytes = 0;
    for (const int from : before) {
      const Plain& one = nodes.at(from);
      std::set<std::size_t> items;
      bool whole = false;
      for (const int to : after) {
        if (!is_edge(from, to)) continue;
        const std::string& user = nodes.at(to).description;
        if (one.is_list && user.starts_with("__getitem__(")) {
          items.insert(std::stoul(user.substr(12)));
        } else {
          whole = true;
        }
      }
      if (whole) bytes += one.whole();
      if (whole) continue;
      for (const std::size_t item : items) bytes += one.tensors.at(item);
    }
    return bytes;
  }
};

void expect_as_plain(const PipedreamGraph& graph, const PlainGraph& plain) {
  const Numbers order = plain.order();
  ASSERT_EQ(numbers(graph), order);
  ASSERT_EQ(graph.costs.layers.size(), order.size());
  for (std::size_t l = 0; l < order.size(); ++l) {
    const Plain& one = plain.nodes.at(order[l]);
    const StageCosts& layer = graph.costs.layers[l];
    EXPECT_EQ(graph.layers[l].description, one.description);
    EXPECT_EQ(layer.forward_ns, one.forward_ns);
    EXPECT_EQ(layer.backward_ns(), one.backward_ns);
    EXPECT_EQ(layer.activation_bytes, one.whole());
    EXPECT_EQ(layer.weight_bytes, one.parameters);
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(l) + 1;
    EXPECT_EQ(layer.output_bytes,
              plain.carried(Numbers(order.begin(), middle), Numbers(middle, order.end())))
        << "behind node" << order[l];
  }
}

class PipedreamSample : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const {
    return testing::source_file("examples/partition/" + std::string(GetParam()) + "_graph.txt");
  }
};
INSTANTIATE_TEST_SUITE_P(All, PipedreamSample, ::testing::Values("alexnet", "gnmt", "resnet50"),
                         [](const auto& sample) { return std::string(sample.param); });

TEST_P(PipedreamSample, IsReadAsAPlainSearchReadsIt) {
  const PipedreamGraph graph = read_pipedream_graph(path());
  const PlainGraph plain(read_file(path()));
  EXPECT_EQ(graph.layers.size() + graph.inputs.size(), plain.nodes.size());
  expect_as_plain(graph, plain);
}

// Nothing hangs on where a line stands.
TEST_P(PipedreamSample, IsTheSameInAnyOrderOfLines) {
  const PipedreamGraph graph = read_pipedream_graph(path(), 2);
  const std::string text = read_file(path());
  auto lines = split(text, '\n');
  std::mt19937_64 random(3);
  for (int round = 0; round < 5; ++round) {
    std::ranges::shuffle(lines, random);
    std::string shuffled;
    for (const std::string_view line : lines) shuffled += std::string(line) + "\n";
    const PipedreamGraph again = parse_pipedream_graph(shuffled, "s.txt", 2);
    EXPECT_EQ(again.layers, graph.layers);
    EXPECT_EQ(again.inputs, graph.inputs);
    EXPECT_EQ(again.costs.layers, graph.costs.layers);
  }
}

TEST_P(PipedreamSample, IsWrittenAsACostsFileAndLaidOut) {
  const CostsFile costs = read_pipedream_graph(path(), 2).costs;
  EXPECT_EQ(parse_costs(to_json(costs), "again.json").layers, costs.layers);
  const Placement placement = Placement::loop(2, 2);
  const Costs stages = costs.resolve(placement, std::nullopt);
  EXPECT_EQ(stages.stages.size(), 4U);
  stages.check(placement, 1000, "sample");
}

// Sums that a calculator makes of the files.
TEST(PipedreamGraph, SamplesTakeWhatTheirFilesSay) {
  struct Sums {
    std::int64_t forward_ns = 0;
    std::int64_t backward_ns = 0;
    std::int64_t parameters = 0;
    std::size_t layers = 0;

    bool operator==(const Sums&) const = default;
  };
  const auto sums = [](const std::string& name) {
    Sums result;
    const PipedreamGraph graph =
        read_pipedream_graph(testing::source_file("examples/partition/" + name + "_graph.txt"));
    for (const StageCosts& layer : graph.costs.layers) {
      result.forward_ns += layer.forward_ns;
      result.backward_ns += layer.backward_ns();
      result.parameters += layer.weight_bytes;
    }
    result.layers = graph.layers.size();
    return result;
  };
  EXPECT_EQ(sums("alexnet"), (Sums{44'801'000, 40'520'000, 244'403'360, 22}));
  EXPECT_EQ(sums("gnmt"), (Sums{33'533'000, 55'883'000, 775'063'808, 45}));
  EXPECT_EQ(sums("resnet50"), (Sums{182'488'000, 260'931'000, 102'228'128, 176}));
}

std::int64_t behind(const PipedreamGraph& graph, int number) {
  const auto at = std::ranges::find(graph.layers, number, &PipedreamGraph::Node::number);
  return graph.costs.layers[static_cast<std::size_t>(at - graph.layers.begin())].output_bytes;
}

// node17 starts a block: node18 to node25 run in parallel to it, and node26 adds both.
TEST(PipedreamGraph, ACutInAResidualBlockCarriesTheShortcut) {
  const PipedreamGraph graph =
      read_pipedream_graph(testing::source_file("examples/partition/resnet50_graph.txt"));
  EXPECT_EQ(behind(graph, 17), 411'041'792);
  EXPECT_EQ(behind(graph, 18), 411'041'792 + 102'760'448);
  EXPECT_EQ(behind(graph, 25), 411'041'792 + 411'041'792);
  EXPECT_EQ(behind(graph, 26), 411'041'792);
}

// Behind node28 of GNMT goes the attention of node26, too, which three later layers
// use; behind node7, an LSTM, two of its three tensors.
TEST(PipedreamGraph, ACutInGnmtCarriesTheAttention) {
  const PipedreamGraph graph =
      read_pipedream_graph(testing::source_file("examples/partition/gnmt_graph.txt"));
  EXPECT_EQ(behind(graph, 28), 6'160'384 + 131'072);
  EXPECT_EQ(behind(graph, 7), 6'291'456 + 131'072);
}

// Random graphs, tuples and all, against the definition.
TEST(PipedreamGraph, CutsCarryWhatTheDefinitionSays) {
  std::mt19937_64 random(11);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  for (int round = 0; round < 300; ++round) {
    const int count = 2 + below(12);
    std::vector<int> at(static_cast<std::size_t>(count));  // numbers, in an order of execution
    for (int i = 0; i < count; ++i) at[static_cast<std::size_t>(i)] = i + 1;
    if (round % 2 == 1) std::ranges::shuffle(at, random);
    std::string text;
    for (const int number : at) {
      const int kind = below(4);
      const std::string size = std::to_string(1 + below(1000)) + ".0";
      std::string sizes = size;
      if (kind == 1) sizes = "[" + size + "; " + std::to_string(1 + below(1000)) + ".0; 7.0]";
      const std::string item = "__getitem__(" + std::to_string(below(3)) + ")";
      text += node_line(number, kind >= 2 ? item : "A", sizes);
    }
    for (std::size_t to = 1; to < at.size(); ++to) {
      for (int edges = below(4); edges > 0; --edges) {
        text += edge_line(at[static_cast<std::size_t>(below(static_cast<int>(to)))], at[to]);
      }
    }
    expect_as_plain(parse(text), PlainGraph(text));
    if (HasFailure()) FAIL() << text;
  }
}

TEST(PipedreamGraph, SaysWhatIsWrong) {
  const std::string one = node_line(1, "A", "1.0");
  const std::string two = node_line(2, "B", "2.0");
  const std::string three = node_line(3, "C", "3.0");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "g.txt: holds no node; it needs lines such as 'node4 -- "},
      {" \r\n\n", "g.txt: holds no node"},
      {" {\"format\":\"pipesim-costs\"}", "g.txt: is JSON; a graph of PipeDream has lines such"},
      {"[1]", "g.txt: is JSON"},
      {edge_line(1, 2), "g.txt: holds no node; it needs"},
      {one + two + edge_line(1, 9),
       "g.txt:3: there is no node9; add its line, or remove this edge"},
      {one + two + edge_line(9, 1), "g.txt:3: there is no node9"},
      {one + two + node_line(1, "C", "3.0"),
       "g.txt:3: node1 is in line 1, too; give each node a number of its own"},
      {one + edge_line(1, 1), "g.txt: the edges node1 -- node1 form a cycle; remove one of them"},
      {one + two + three + edge_line(3, 1) + edge_line(1, 2) + edge_line(2, 3),
       "the edges node1 -- node2 -- node3 -- node1 form a cycle"},
      {one + two + three + edge_line(3, 2) + edge_line(2, 3) + edge_line(3, 1),
       "the edges node2 -- node3 -- node2 form a cycle"},
      {"hello", "g.txt:1: 'hello' is neither a node nor an edge, such as 'node4 -- "},
      {one + "compressed_node1 -- A", "g.txt:2: 'compressed_node1 -- A' is neither"},
      {"node-1 -- A", "neither a node nor an edge"},
      {"node99999999999 -- A", "neither a node nor an edge"},
      {"node1 --", "neither a node nor an edge"},
      {"node1 -- Linear", "g.txt:1: node1 has no times and sizes; write it such as 'node4 -- "},
      {"node1 -- Linear -- stage_id=1", "node1 has no times and sizes"},
      {one.substr(0, one.size() - 1) + " -- stage_id=x",
       "stage_id: 'x' is not a number of a stage"},
      {"node1 -- A -- forward_compute_time=1, backward_compute_time=1, activation_size=1",
       "g.txt:1: node1 has no parameter_size; write it such as"},
      {"node1 -- A -- forward_compute_time=1, forward_compute_time=1",
       "node1 has two of forward_compute_time"},
      {"node1 -- A -- forward=1", "node1: 'forward=1' is none of forward_compute_time, "},
      {"node1 -- A -- parameter_size", "node1: 'parameter_size' is none of forward_compute_time, "},
      {node_line(1, "A", "[1.0, 2.0]"), "node1: '2.0]' is none of"},
      {node_line(1, "A", "[1.0; x]"), "g.txt:1: activation_size: ' x' is not a number"},
      {node_line(1, "A", "[]"), "activation_size: '' is not a number"},
      {node_line(1, "A", "[1.0"), "activation_size: '[1.0' is not a number"},
      {two + node_line(1, "A", "1.0", "nan"),
       "g.txt:2: forward_compute_time: 'nan' is not a number"},
      {node_line(1, "A", "1.0", "1.0", "inf"), "backward_compute_time: 'inf' is not a number"},
      {node_line(1, "A", "1.0", "1.0ms"), "forward_compute_time: '1.0ms' is not a number"},
      {node_line(1, "A", "1.0", "-0.5"), "forward_compute_time: '-0.5' is negative"},
      {node_line(1, "A", "-1.0"), "activation_size: '-1.0' is negative"},
      {node_line(1, "A", "1.0", "1000000000.000001"),
       "forward_compute_time: '1000000000.000001' is out of range; the limit is "
       "1000000000000000 ns"},
      {node_line(1, "A", "1e300"), "activation_size: '1e300' is out of range"},
      {node_line(1, "A", "1.0", "1.0", "1.0", "1125899906842625"),
       "parameter_size: '1125899906842625' is out of range; the limit is 1125899906842624 bytes"},
      {one + node_line(2, "B", "1125899906842624") + three,
       "g.txt:2: activation_size up to here exceed 1125899906842624 bytes together"},
      {node_line(1, "A", "[600000000000000; 600000000000000]"),
       "g.txt:1: activation_size: the tensors of node1 exceed"},
      {node_line(1, "A", "1", "6e8") + node_line(2, "B", "1", "6e8"),
       "g.txt:2: forward_compute_time up to here exceed 1000000000000000 ns together"},
      {node_line(1, "Input", "1.0"), "g.txt: has inputs, but no layer that uses them"},
      {node_line(1, "A", "[1.0; 2.0]") + node_line(2, "__getitem__(2)", "1.0") + edge_line(1, 2),
       "g.txt:2: node2 takes item 2 of node1, which has 2 tensors"},
  };
  for (const auto& [text, message] : cases) {
    const std::string error = testing::input_error_of([&, graph = text] { parse(graph); });
    EXPECT_NE(error.find(message), std::string::npos) << text << "\n" << error;
  }
}

TEST(PipedreamGraph, RefusesAnOptimizerThatDoesNotFit) {
  const std::string text = node_line(1, "A", "1.0", "1.0", "1.0", "1e15");
  const auto error = [&](std::int64_t multiple) {
    return testing::input_error_of([&] { parse_pipedream_graph(text, "g.txt", multiple); });
  };
  EXPECT_EQ(error(1), testing::no_error);
  EXPECT_NE(error(2).find("parameter_size up to here exceed 562949953421312 bytes"),
            std::string::npos);
  EXPECT_NE(error(-1).find("g.txt: an optimizer state of -1 times the parameters"),
            std::string::npos);
}

TEST(PipedreamGraph, NamesAFileThatIsNotThere) {
  EXPECT_NE(
      testing::input_error_of([] { read_pipedream_graph("no/graph.txt"); }).find("no/graph.txt"),
      std::string::npos);
}

}  // namespace
}  // namespace pipesim
