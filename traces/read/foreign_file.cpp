#include "traces/read/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "traces/action.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

struct Beginning {
  std::string_view bytes;
  std::string_view what;  // describes the file, and how to make a trace of it
};

constexpr std::array<Beginning, 9> beginnings{{
    {"SQLite format 3", "an SQLite database, such as Nsight Systems exports; give a Chrome trace"},
    {"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it with 'zstd -d'"},
    {"PK\x03\x04", "a zip archive; unpack it"},
    {"BZh", "compressed by bzip2; unpack it with 'bunzip2'"},
    {"\xfd"
     "7zXZ",
     "compressed by xz; unpack it with 'xz -d'"},
    {"\x1f\x8b", "a gzip file that breaks off at its beginning; copy it again"},
    {"\xff\xfe", "text in UTF-16; write it as UTF-8"},
    {"\n", "binary, as Perfetto's own traces are; convert it with 'traceconv json'"},
    {"<", "HTML or XML; give the JSON behind it"},
}};

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || c == '\t' || c == '\n' || c == '\r';
  });
}

// As a schedule's CSV starts: an action, alone or in brackets or quotes.
bool is_schedule(std::string_view head) {
  const std::size_t start = head.find_first_not_of(" \t\r\n,\"(");
  if (start == std::string_view::npos) return false;
  head.remove_prefix(start);
  return parse_action(head.substr(0, head.find_first_of(" \t\r\n,\";"))).has_value();
}

Error refuse(const std::string& path, std::string_view what) {
  return input_error(fmt::format("{}: {}", path, what));
}

}  // namespace

Error no_trace(const std::string& path, std::string_view head) {
  if (head.empty()) return refuse(path, "the file is empty; give a Chrome trace");
  for (const auto& [bytes, what] : beginnings) {
    if (head.starts_with(bytes) && (bytes != "\n" || !is_text(head))) {
      return refuse(path, fmt::format("not a Chrome trace but {}", what));
    }
  }
  if (is_schedule(head)) {
    return refuse(path,
                  "not a trace but a schedule, in CSV; `pipesim --schedule FILE.csv --trace "
                  "trace.json` makes "
                  "a trace of it");
  }
  return refuse(path,
                fmt::format("not a Chrome trace: it starts with {}, and JSON with '{{' or '['",
                            quote(head.substr(0, std::min<std::size_t>(head.size(), 20)))));
}

Error no_trace(const std::string& path,
               const std::map<std::string, std::string, std::less<>>& members) {
  const auto is = [&](std::string_view key, std::string_view text) {
    const auto found = members.find(key);
    return found != members.end() && found->second.find(text) != std::string::npos;
  };
  const auto has = [&](std::string_view key) { return members.contains(key); };
  for (const std::string_view format : {"pipesim-result", "pipeexec-result"}) {
    if (is("format", format)) {
      return refuse(path, fmt::format("not a trace but a {}, which has no times of single actions; "
                                      "run it again with --trace FILE",
                                      format));
    }
  }
  if (is("format", "pipesim-costs") || is("format", "pipesim-model")) {
    return refuse(path, fmt::format("not a trace but {}; give it as {}, and --trace writes a trace",
                                    members.find("format")->second,
                                    is("format", "pipesim-costs") ? "--costs" : "--model"));
  }
  if (has("workload_graph") || is("schema", "hakra") ||
      (has("nodes") && (has("schema") || has("pid")))) {
    return refuse(path,
                  "an execution trace (Chakra's, or PyTorch's ExecutionTraceObserver): a graph of "
                  "operations without a time line; give the profiler's trace of the same run");
  }
  if (has("traceEvents")) {
    return refuse(path, "not a Chrome trace: traceEvents is not a list");
  }
  std::vector<std::string> keys;
  for (const auto& [key, text] : members) {
    if (keys.size() == 5) {
      keys.emplace_back("...");
      break;
    }
    keys.push_back(quote(key));
  }
  return refuse(
      path, fmt::format("not a Chrome trace: a JSON object without traceEvents (it has {})",
                        keys.empty() ? "no members" : fmt::format("{}", fmt::join(keys, ", "))));
}

}  // namespace pipesim
