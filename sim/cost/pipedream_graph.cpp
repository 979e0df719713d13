#include "sim/cost/pipedream_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>

#include "traces/base/decimal.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::string_view separator = " -- ";
constexpr std::string_view node_example =
    "node4 -- Linear(8, 8) -- forward_compute_time=0.539, backward_compute_time=0.188, "
    "activation_size=1024.0, parameter_size=256.000";

struct ProfiledNode {
  int number = 0;
  std::string_view description;
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t parameter_bytes = 0;
  std::vector<std::int64_t> tensors;  // bytes of each output
  std::int64_t activation_bytes = 0;  // of all of them
  bool is_tuple = false;
  std::vector<std::size_t> consumers;  // indices of nodes
  std::size_t line = 0;
};

// "7", all of it.
std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = status == std::errc() && end == text.data() + text.size();
  return is_whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// "node7".
std::optional<int> node_number(std::string_view text) {
  constexpr std::string_view prefix = "node";
  if (!text.starts_with(prefix)) return std::nullopt;
  return whole_number(text.substr(prefix.size()));
}

// The k of "__getitem__(k)".
std::optional<int> item_of(std::string_view description) {
  constexpr std::string_view prefix = "__getitem__(";
  if (!description.starts_with(prefix) || !description.ends_with(')')) return std::nullopt;
  description.remove_prefix(prefix.size());
  return whole_number(description.substr(0, description.size() - 1));
}

bool says_input(std::string_view description) {
  constexpr std::string_view prefix = "Input";
  return description.starts_with(prefix) &&
         (description == prefix || whole_number(description.substr(prefix.size())));
}

// Reads the lines: nodes in order of their numbers, each with its consumers.
class GraphReader {
 public:
  GraphReader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
  }

  std::vector<ProfiledNode> run() {
    const std::string_view content = strip(text_);
    if (content.starts_with('{') || content.starts_with('[')) {
      throw input_error(fmt::format("{}: is JSON; a graph of PipeDream has lines such as '{}'",
                                    file_, node_example));
    }
    const auto lines = split(text_, '\n');
    for (line_ = 1; line_ <= lines.size(); ++line_) read_line(strip(lines[line_ - 1]));
    if (nodes_.empty()) {
      throw input_error(
          fmt::format("{}: holds no node; it needs lines such as '{}'", file_, node_example));
    }
    std::ranges::stable_sort(nodes_, {}, &ProfiledNode::number);
    const auto twice = std::ranges::adjacent_find(nodes_, {}, &ProfiledNode::number);
    if (twice != nodes_.end()) {
      line_ = (twice + 1)->line;
      fail(fmt::format("node{} is in line {}, too; give each node a number of its own",
                       twice->number, twice->line));
    }
    for (const Edge& edge : edges_) connect(edge);
    return std::move(nodes_);
  }

 private:
  struct Edge {
    int from = 0;
    int to = 0;
    std::size_t line = 0;
  };

  [[noreturn]] void fail(std::string_view rule) const {
    throw input_error(fmt::format("{}:{}: {}", file_, line_, rule));
  }

  void read_line(std::string_view line) {
    if (line.empty()) return;
    const std::size_t at = line.find(separator);
    const auto number = node_number(line.substr(0, at));
    if (!number || at == std::string_view::npos) {
      fail(fmt::format("{} is neither a node nor an edge, such as '{}' and 'node1 -- node4'",
                       quote(line), node_example));
    }
    const std::string_view rest = line.substr(at + separator.size());
    if (const auto to = node_number(rest)) {
      edges_.push_back({*number, *to, line_});
    } else {
      read_node(*number, rest);
    }
  }

  // A description may contain the separator; the rest may not.
  void read_node(int number, std::string_view rest) {
    constexpr std::string_view stage = "stage_id=";
    std::size_t at = rest.rfind(separator);
    if (at != std::string_view::npos && rest.substr(at + separator.size()).starts_with(stage)) {
      const std::string_view id = rest.substr(at + separator.size() + stage.size());
      if (!whole_number(id))
        fail(fmt::format("stage_id: {} is not a number of a stage", quote(id)));
      rest = rest.substr(0, at);
      at = rest.rfind(separator);
    }
    if (at == std::string_view::npos) {
      fail(fmt::format("node{} has no times and sizes; write it such as '{}'", number,
                       node_example));
    }
    ProfiledNode node;
    node.number = number;
    node.line = line_;
    node.description = rest.substr(0, at);
    read_attributes(node, rest.substr(at + separator.size()));
    nodes_.push_back(std::move(node));
  }

  void read_attributes(ProfiledNode& node, std::string_view text) const {
    struct Attribute {
      std::string_view key;
      std::optional<std::string_view> value = std::nullopt;
    };
    std::array attributes{Attribute{"forward_compute_time"}, Attribute{"backward_compute_time"},
                          Attribute{"activation_size"}, Attribute{"parameter_size"}};
    for (const std::string_view part : split(text, ',')) {
      const std::size_t equals = std::min(part.find('='), part.size());
      const std::string_view key = strip(part.substr(0, equals));
      const auto attribute = std::ranges::find(attributes, key, &Attribute::key);
      if (attribute == attributes.end() || equals == part.size()) {
        fail(fmt::format(
            "node{}: {} is none of forward_compute_time, backward_compute_time, activation_size, "
            "parameter_size, each followed by = and a number",
            node.number, quote(strip(part))));
      }
      if (attribute->value) fail(fmt::format("node{} has two of {}", node.number, key));
      attribute->value = strip(part.substr(equals + 1));
    }
    for (const Attribute& attribute : attributes) {
      if (!attribute.value) {
        fail(fmt::format("node{} has no {}; write it such as '{}'", node.number, attribute.key,
                         node_example));
      }
    }
    const auto& [forward, backward, activation, parameters] = attributes;
    node.forward_ns = time_ns(forward.key, *forward.value);
    node.backward_ns = time_ns(backward.key, *backward.value);
    node.parameter_bytes = bytes(parameters.key, *parameters.value);
    std::string_view sizes = *activation.value;
    node.is_tuple = sizes.starts_with('[') && sizes.ends_with(']');
    if (node.is_tuple) sizes = sizes.substr(1, sizes.size() - 2);
    for (const std::string_view size : split(sizes, node.is_tuple ? ';' : '\n')) {
      node.tensors.push_back(bytes(activation.key, size));
      node.activation_bytes += node.tensors.back();
      if (node.activation_bytes > max_bytes) {
        fail(fmt::format("activation_size: the tensors of node{} exceed {} bytes together",
                         node.number, max_bytes));
      }
    }
  }

  std::int64_t time_ns(std::string_view key, std::string_view text) const {
    return quantity(key, text, 6, max_time_ns, "ns");
  }
  std::int64_t bytes(std::string_view key, std::string_view text) const {
    return quantity(key, text, 0, max_bytes, "bytes");
  }

  std::int64_t quantity(std::string_view key, std::string_view text, int scale, std::int64_t limit,
                        std::string_view unit) const {
    const ScaledDecimal number = scale_decimal(text, scale);
    if (number.status == ScaledDecimal::Status::not_a_number) {
      fail(fmt::format("{}: {} is not a number", key, quote(text)));
    }
    if (number.value < 0) {
      fail(fmt::format("{}: {} is negative; it must be 0 or more", key, quote(text)));
    }
    if (number.status == ScaledDecimal::Status::out_of_range || number.value > limit) {
      fail(
          fmt::format("{}: {} is out of range; the limit is {} {}", key, quote(text), limit, unit));
    }
    return number.value;
  }

  std::size_t index_of(int number) const {
    const auto found = std::ranges::lower_bound(nodes_, number, {}, &ProfiledNode::number);
    if (found == nodes_.end() || found->number != number) {
      fail(fmt::format("there is no node{}; add its line, or remove this edge", number));
    }
    return static_cast<std::size_t>(found - nodes_.begin());
  }

  void connect(const Edge& edge) {
    line_ = edge.line;
    const std::size_t from = index_of(edge.from);
    nodes_[from].consumers.push_back(index_of(edge.to));
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t line_ = 0;
  std::vector<ProfiledNode> nodes_;
  std::vector<Edge> edges_;
};

// Names a cycle among the nodes that have producers left.
[[noreturn]] void fail_by_cycle(const std::vector<ProfiledNode>& nodes,
                                const std::vector<std::size_t>& producers_left,
                                const std::string& file) {
  std::vector<std::size_t> producer(nodes.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (producers_left[i] == 0) continue;
    at = i;
    for (const std::size_t consumer : nodes[i].consumers) producer[consumer] = i;
  }
  std::vector<bool> seen(nodes.size());
  while (!seen[at]) {
    seen[at] = true;
    at = producer[at];
  }
  std::vector<std::size_t> cycle{at};
  for (std::size_t i = producer[at]; i != at; i = producer[i]) cycle.push_back(i);
  std::rotate(cycle.begin(), std::ranges::min_element(cycle), cycle.end());
  std::ranges::reverse(cycle.begin() + 1, cycle.end());
  constexpr std::size_t most = 8;  // named
  std::string names;
  for (std::size_t i = 0; i < std::min(cycle.size(), most); ++i) {
    names += fmt::format("node{} -- ", nodes[cycle[i]].number);
  }
  throw input_error(fmt::format("{}: the edges {}{}node{} form a cycle; remove one of them", file,
                                names, cycle.size() > most ? "... -- " : "",
                                nodes[cycle[0]].number));
}

// Each after its producers, the smallest number first.
std::vector<std::size_t> order_of_execution(const std::vector<ProfiledNode>& nodes,
                                            std::vector<std::size_t> producers_left,
                                            const std::string& file) {
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (producers_left[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const std::size_t consumer : nodes[next].consumers) {
      if (--producers_left[consumer] == 0) ready.push(consumer);
    }
  }
  if (order.size() < nodes.size()) fail_by_cycle(nodes, producers_left, file);
  return order;
}

// The bytes that a cut after each position carries.
std::vector<std::int64_t> carried_bytes(const std::vector<ProfiledNode>& nodes,
                                        const std::vector<std::size_t>& order,
                                        const std::string& file) {
  std::vector<std::size_t> position(nodes.size());  // 0 for inputs, which carry nothing
  for (std::size_t p = 0; p < order.size(); ++p) position[order[p]] = p;
  std::vector<std::int64_t> changes(order.size() + 1);
  for (std::size_t p = 0; p < order.size(); ++p) {
    const ProfiledNode& node = nodes[order[p]];
    std::size_t last_of_all = p;
    std::vector<std::size_t> last(node.tensors.size(), p);  // position that uses it
    for (const std::size_t consumer : node.consumers) {
      const auto item = node.is_tuple ? item_of(nodes[consumer].description) : std::nullopt;
      if (item && static_cast<std::size_t>(*item) >= last.size()) {
        throw input_error(fmt::format("{}:{}: node{} takes item {} of node{}, which has {}", file,
                                      nodes[consumer].line, nodes[consumer].number, *item,
                                      node.number,
                                      plural(static_cast<std::int64_t>(last.size()), "tensor")));
      }
      std::size_t& use = item ? last[static_cast<std::size_t>(*item)] : last_of_all;
      use = std::max(use, position[consumer]);
    }
    for (std::size_t k = 0; k < last.size(); ++k) {
      changes[p] += node.tensors[k];
      changes[std::max(last[k], last_of_all)] -= node.tensors[k];
    }
  }
  changes.pop_back();
  std::partial_sum(changes.begin(), changes.end(), changes.begin());
  return changes;
}

// No stage takes more than all layers together: checks that these sums, and the bytes of a cut, fit
// in 64 bits.
void check_sums(const std::vector<ProfiledNode>& nodes, std::int64_t optimizer_multiple,
                const std::string& file) {
  if (optimizer_multiple < 0) {
    throw input_error(
        fmt::format("{}: an optimizer state of {} times the parameters; it must be 0 or more", file,
                    optimizer_multiple));
  }
  const auto check = [&](std::string_view what, auto value_of, std::int64_t limit,
                         std::string_view unit) {
    std::int64_t sum = 0;
    for (const ProfiledNode& node : nodes) {
      sum += value_of(node);
      if (sum <= limit) continue;
      throw input_error(fmt::format("{}:{}: {} up to here exceed {} {} together; use smaller ones",
                                    file, node.line, what, limit, unit));
    }
  };
  check("forward_compute_time", std::mem_fn(&ProfiledNode::forward_ns), max_time_ns, "ns");
  check("backward_compute_time", std::mem_fn(&ProfiledNode::backward_ns), max_time_ns, "ns");
  check("activation_size", std::mem_fn(&ProfiledNode::activation_bytes), max_bytes, "bytes");
  check("parameter_size", std::mem_fn(&ProfiledNode::parameter_bytes),
        max_bytes / std::max<std::int64_t>(optimizer_multiple, 1), "bytes");
}

}  // namespace

PipedreamGraph parse_pipedream_graph(std::string_view text, const std::string& file,
                                     std::int64_t optimizer_multiple) {
  const std::vector<ProfiledNode> nodes = GraphReader(text, file).run();
  check_sums(nodes, optimizer_multiple, file);
  std::vector<std::size_t> producers(nodes.size());
  for (const ProfiledNode& node : nodes) {
    for (const std::size_t consumer : node.consumers) ++producers[consumer];
  }
  std::vector<std::size_t> order = order_of_execution(nodes, producers, file);
  const auto is_input = [&](std::size_t i) {
    return producers[i] == 0 && says_input(nodes[i].description);
  };

  PipedreamGraph graph;
  const auto name = [&](std::size_t i) {
    return PipedreamGraph::Node{nodes[i].number, std::string(nodes[i].description)};
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_input(i)) graph.inputs.push_back(name(i));
  }
  std::erase_if(order, is_input);
  if (order.empty()) {
    throw input_error(fmt::format("{}: has inputs, but no layer that uses them", file));
  }
  const std::vector<std::int64_t> carried = carried_bytes(nodes, order, file);
  for (std::size_t p = 0; p < order.size(); ++p) {
    const ProfiledNode& node = nodes[order[p]];
    graph.layers.push_back(name(order[p]));
    StageCosts& layer = graph.costs.layers.emplace_back();
    layer.forward_ns = node.forward_ns;
    layer.split_backward(node.backward_ns);
    layer.activation_bytes = node.activation_bytes;
    layer.weight_bytes = layer.gradient_bytes = node.parameter_bytes;
    layer.optimizer_bytes = node.parameter_bytes * optimizer_multiple;
    layer.output_bytes = carried[p];
  }
  graph.costs.name = file;
  return graph;
}

PipedreamGraph read_pipedream_graph(const std::string& path, std::int64_t optimizer_multiple) {
  return parse_pipedream_graph(read_file(path), path, optimizer_multiple);
}

}  // namespace pipesim
