#include "traces/flame/stack_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/flame/flame_graph.h"

namespace pipesim {
namespace {

// Text that goes to the file piece by piece.
class Text {
 public:
  explicit Text(OutputFile& file) : file_(file) {}

  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    constexpr std::size_t most = 1 << 16;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    if (text_.size() > most) finish();
  }
  void finish() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

 private:
  OutputFile& file_;
  fmt::memory_buffer text_;
};

// A frame between semicolons, on one line.
std::string folded_name(const std::string& name) {
  if (name.empty()) return "(no name)";
  std::string text = printable(name);
  std::ranges::replace(text, ';', ':');
  return text;
}

void write_folded(const FlameGraph& graph, Text& text) {
  std::vector<std::string> names;
  names.reserve(graph.frames.size());
  for (const StackFrame& frame : graph.frames) names.push_back(folded_name(frame.name));
  const auto name_of = [&](std::uint32_t node) -> const std::string& {
    return names[graph.nodes[node].frame];
  };
  struct Open {
    std::vector<std::uint32_t> children;  // pending, the last first
    std::size_t length;                   // of the path, with this frame
  };
  std::string path;
  std::vector<Open> stack;
  const auto open = [&](std::uint32_t node) {
    const FlameGraph::Node& own = graph.nodes[node];
    if (own.self_ns > 0) text.add("{} {}\n", path, own.self_ns);
    std::vector<std::uint32_t> children(own.count);
    std::iota(children.begin(), children.end(), own.first);
    std::ranges::sort(children, [&](std::uint32_t a, std::uint32_t b) {
      const int order = name_of(a).compare(name_of(b));
      return order != 0 ? order > 0 : a > b;
    });
    stack.push_back({std::move(children), path.size()});
  };
  open(FlameGraph::root);
  while (!stack.empty()) {
    Open& innermost = stack.back();
    path.resize(innermost.length);
    if (innermost.children.empty()) {
      stack.pop_back();
      continue;
    }
    const std::uint32_t child = innermost.children.back();
    innermost.children.pop_back();
    if (!path.empty()) path += ';';
    path += name_of(child);
    open(child);
  }
}

// Times count from the first start, so that JavaScript's numbers hold them to the nanosecond.
void write_speedscope(const Stacks& stacks, std::string_view name, Text& text) {
  const auto quoted = [](std::string_view string) { return Json(string).dump(); };
  text.add(
      "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
      "\"name\":{},\"activeProfileIndex\":0,\"exporter\":\"pipesim\",\n"
      "\"shared\":{{\"frames\":[",
      quoted(name));
  std::string_view separator = "\n";
  for (const StackFrame& frame : stacks.frames) {
    text.add("{}{{\"name\":{}}}", separator, quoted(frame.name.empty() ? "(no name)" : frame.name));
    separator = ",\n";
  }
  text.add("]}},\n\"profiles\":[");
  std::int64_t origin_ns = std::numeric_limits<std::int64_t>::max();
  for (const StackLine& line : stacks.lines) origin_ns = std::min(origin_ns, line.start_ns);
  separator = "\n";
  for (const StackLine& line : stacks.lines) {
    std::string title;
    for (const std::uint32_t frame : line.path) {
      title += (title.empty() ? "" : ", ") + stacks.frames[frame].name;
    }
    text.add(
        "{}{{\"type\":\"evented\",\"name\":{},\"unit\":\"nanoseconds\",\"startValue\":{},"
        "\"endValue\":{},\"events\":[",
        separator, quoted(title), line.start_ns - origin_ns, line.end_ns - origin_ns);
    separator = "\n";
    for (const StackEvent& event : line.events) {
      text.add("{}{{\"type\":\"{}\",\"frame\":{},\"at\":{}}}", separator, event.opens ? 'O' : 'C',
               event.frame, event.at_ns - origin_ns);
      separator = ",\n";
    }
    text.add("]}}");
    separator = ",\n";
  }
  text.add("]}}\n");
}

}  // namespace

StackFormat stack_format_of(const std::string& path, std::string_view where) {
  std::string_view name = path;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  if (name.ends_with(".folded") || name.ends_with(".txt")) return StackFormat::folded;
  if (name.ends_with(".json")) return StackFormat::speedscope;
  throw input_error(
      fmt::format("{}: {} does not say in which form; name it .folded or .txt for folded stacks, "
                  ".speedscope.json or .json for speedscope",
                  where, quote(path)));
}

void write_stacks(const Stacks& stacks, std::string_view name, StackFormat format,
                  OutputFile& file) {
  Text text(file);
  if (format == StackFormat::folded) {
    write_folded(flame_graph(stacks), text);
  } else {
    write_speedscope(stacks, name, text);
  }
  text.finish();
}

}  // namespace pipesim
