#include "traces/read/profile/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "traces/base/json_slice.h"
#include "traces/base/text.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/profile/pipelines.h"

namespace pipesim {
namespace {

// Times after 2096 or as long before 1970 are invalid; sums of two stay in range.
constexpr std::int64_t latest_profiled_ns = 4'000'000'000'000'000'000;
// 2001: a later time without a base counts from 1970.
constexpr std::int64_t year_2001_ns = 1'000'000'000'000'000'000;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::int64_t argument_or(const ChromeEvent& event, std::string_view key, std::string_view older,
                         std::int64_t missing) {
  std::string_view text = event.argument(key);
  if (text.empty() && !older.empty()) text = event.argument(older);
  return whole(text).value_or(missing);
}

// Bytes per element of NCCL's argument "dtype"; 0 if unknown.
std::int64_t element_bytes(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 16> known{{
      {"Float", 4},
      {"BFloat16", 2},
      {"Half", 2},
      {"Double", 8},
      {"Byte", 1},
      {"Char", 1},
      {"Bool", 1},
      {"Short", 2},
      {"Int", 4},
      {"Long", 8},
      {"Float8_e4m3fn", 1},
      {"Float8_e5m2", 1},
      {"Float8_e4m3fnuz", 1},
      {"Float8_e5m2fnuz", 1},
      {"ComplexFloat", 8},
      {"ComplexDouble", 16},
  }};
  for (const auto& [name, bytes] : known) {
    if (name == type) return bytes;
  }
  return 0;
}

enum class Category : std::uint8_t {
  other,
  host,
  launch,
  operation,
  kernel,
  copy,
  flow,
  device_range
};

Category category_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Category>, 18> known{{
      {"kernel", Category::kernel},
      {"Kernel", Category::kernel},
      {"gpu_memcpy", Category::copy},
      {"gpu_memset", Category::copy},
      {"Memcpy", Category::copy},
      {"Memset", Category::copy},
      {"cuda_runtime", Category::launch},
      {"cuda_driver", Category::launch},
      {"Runtime", Category::launch},
      {"xpu_runtime", Category::launch},
      {"cpu_op", Category::operation},
      {"Operator", Category::operation},
      {"ac2g", Category::flow},
      {"async", Category::flow},
      {"gpu_user_annotation", Category::device_range},
      {"user_annotation", Category::host},
      {"python_function", Category::host},
      {"", Category::host},
  }};
  for (const auto& [text, category] : known) {
    if (text == name) return category;
  }
  return Category::other;
}

// Collects a file's events.
class ProfileCollector {
 public:
  ProfileCollector(ProfileFile& file, Warnings& warnings) : file_(file), warnings_(warnings) {}

  void visit(const ChromeEvent& event) {
    ++file_.events;
    if (event.phase == 'M') {
      if (event.name == "process_name") name_process(event);
      return;
    }
    if (event.phase != 'X' && event.phase != 's') return;
    const Category category = category_of(event.category);
    if (event.phase == 's') {
      if (category == Category::flow) add_origin(event, whole(event.id), file_.flows);
      return;
    }
    ++file_.categories[event.category.empty() ? "without category" : std::string(event.category)];
    switch (category) {
      case Category::kernel:
      case Category::copy: add_kernel(event, category); break;
      case Category::launch:
        add_origin(event, whole(event.argument("correlation")), file_.launches);
        break;
      case Category::operation:
        add_operator(event);
        add_range(event);
        break;
      case Category::host: add_range(event); break;
      // The range on the processor says more than that on the device.
      case Category::other:
      case Category::flow:
      case Category::device_range: break;
    }
  }

 private:
  struct Times {
    std::int64_t start_ns, end_ns;
  };

  std::optional<Times> times_of(const ChromeEvent& event) {
    const std::int64_t start = event.ts_ns.value_or(latest_profiled_ns + 1);
    const std::int64_t length = std::max<std::int64_t>(event.dur_ns.value_or(0), 0);
    if (start > latest_profiled_ns || start < -latest_profiled_ns ||
        length > latest_profiled_ns - std::max<std::int64_t>(start, 0)) {
      warnings_.add("events without a time that can be, left out",
                    fmt::format("{}: event {}", file_.path, event.index));
      return std::nullopt;
    }
    return Times{start, start + length};
  }

  int process_of(std::string_view pid) {
    const auto [entry, fresh] =
        processes_.try_emplace(std::string(pid), static_cast<int>(file_.processes.size()));
    if (fresh) file_.processes.push_back({std::string(pid), {}});
    return entry->second;
  }

  int thread_of(const ChromeEvent& event) {
    const int process = process_of(event.pid);
    const auto [entry, fresh] = threads_.try_emplace({process, std::string(event.tid)},
                                                     static_cast<int>(file_.threads.size()));
    if (fresh) file_.threads.push_back({process, std::string(event.tid)});
    return entry->second;
  }

  void name_process(const ChromeEvent& event) {
    file_.processes[static_cast<std::size_t>(process_of(event.pid))].name = event.argument("name");
  }

  void add_origin(const ChromeEvent& event, std::optional<std::int64_t> id,
                  std::vector<ProfileOrigin>& origins) {
    if (!id || !event.ts_ns) return;
    if (const auto times = times_of(event)) {
      origins.push_back({*id, times->start_ns, thread_of(event)});
    }
  }

  void add_operator(const ChromeEvent& event) {
    const std::int64_t id = argument_or(event, "External id", "external id", -1);
    if (id >= 0) add_origin(event, id, file_.operators);
    const bool sends = event.name == "c10d::send";
    if (sends || event.name.starts_with("c10d::recv")) add_message(event, sends);
    if (event.name == "record_param_comms") add_peer(event);
  }

  void add_message(const ChromeEvent& event, bool sends) {
    const auto times = times_of(event);
    if (!times) return;
    file_.messages.push_back({thread_of(event), times->start_ns, times->end_ns, sends});
  }

  void add_range(const ChromeEvent& event) {
    if (event.category == "user_annotation") {
      // "gloo:send"; on a device its kernels are used.
      if (event.name.ends_with(":send")) return add_message(event, true);
      if (event.name.ends_with(":recv")) return add_message(event, false);
    }
    const RangeName name = parse_range_name(event.name);
    if (name.says == RangeName::Says::nothing) return;
    if (name.says == RangeName::Says::unknown) {
      warnings_.add("ranges PP: of an unknown kind, left out",
                    fmt::format("{}: event {}, {}", file_.path, event.index, quote(event.name)));
    }
    if (name.says == RangeName::Says::turn) ++file_.turns[std::string(turn_name(event.name))];
    const auto times = times_of(event);
    if (!times) return;
    file_.ranges.push_back({name, thread_of(event), times->start_ns, times->end_ns});
  }

  void add_kernel(const ChromeEvent& event, Category category) {
    const auto times = times_of(event);
    if (!times) return;
    ProfileKernel kernel;
    kernel.start_ns = times->start_ns;
    kernel.end_ns = times->end_ns;
    kernel.correlation = argument_or(event, "correlation", {}, -1);
    kernel.external_id = argument_or(event, "External id", "external id", -1);
    kernel.collective = category == Category::kernel &&
                        (event.name.starts_with("nccl") || event.name.starts_with("rccl"));
    kernel.computes = category == Category::kernel && !kernel.collective;
    if (kernel.collective) describe_collective(event, kernel);
    file_.kernels.push_back(kernel);
  }

  // Notes the peer of a send or receive that may be the pipeline's.
  void add_peer(const ChromeEvent& event) {
    const std::string_view group = event.argument("Process Group Description");
    const bool of_some_other =
        !group.empty() && group != "default_pg" && group != "undefined" && !names_pipeline(group);
    if (of_some_other) return;
    for (const char* end : {"Dst Rank", "Src Rank"}) {
      const auto peer = whole(event.argument(end));
      if (peer && *peer >= 0 && *peer <= max_count) file_.peers.insert(static_cast<int>(*peer));
    }
  }

  // All-to-alls are made of SendRecv, too, so only arguments tell.
  void describe_collective(const ChromeEvent& event, ProfileKernel& kernel) {
    const std::string_view name = event.argument("Collective name");
    if (name == "send") kernel.message = ProfileKernel::Message::send;
    if (name == "recv") kernel.message = ProfileKernel::Message::receive;
    const std::int64_t elements = std::max(argument_or(event, "In msg nelems", {}, 0),
                                           argument_or(event, "Out msg nelems", {}, 0));
    const std::int64_t width = element_bytes(event.argument("dtype"));
    if (width > 0 && elements > 0 && elements <= max_bytes / width) kernel.bytes = elements * width;
    if (kernel.message != ProfileKernel::Message::none) add_peer(event);
  }

  ProfileFile& file_;
  Warnings& warnings_;
  std::map<std::string, int, std::less<>> processes_;
  std::map<std::pair<int, std::string>, int> threads_;
};

std::optional<int> small_number(std::optional<JsonSlice> value) {
  const auto number = value ? value->whole() : std::nullopt;
  if (!number || *number < 0 || *number > max_count) return std::nullopt;
  return static_cast<int>(*number);
}

std::string text_of(std::optional<JsonSlice> value) {
  return value ? value->string().value_or("") : "";
}

// Adds `base_ns` to every time; if one is invalid then, there is no base.
bool add_base(ProfileFile& file, std::int64_t base_ns) {
  bool fine = true;
  const auto each = [&](auto&& change) {
    for (ProfileRange& range : file.ranges) change(range.start_ns), change(range.end_ns);
    for (ProfileMessage& message : file.messages) change(message.start_ns), change(message.end_ns);
    for (ProfileKernel& kernel : file.kernels) change(kernel.start_ns), change(kernel.end_ns);
    for (auto* origins : {&file.launches, &file.operators, &file.flows}) {
      for (ProfileOrigin& origin : *origins) change(origin.time_ns);
    }
  };
  each([&](std::int64_t& time) {
    fine = fine && time + base_ns <= latest_profiled_ns && time + base_ns >= -latest_profiled_ns;
  });
  if (fine) each([&](std::int64_t& time) { time += base_ns; });
  return fine;
}

JsonSlice member_of(const ChromeTrace& trace, std::string_view key) {
  const auto entry = trace.members.find(key);
  return JsonSlice(entry == trace.members.end() ? "null" : std::string_view(entry->second));
}

// The numbers of a list, or of a text with one, since both occur; none if the list is cut short.
std::vector<int> numbers_of(const JsonSlice& value) {
  std::string text(value.text());
  if (const auto content = value.string()) text = *content;
  std::vector<int> numbers;
  if (!text.starts_with('[') || !text.ends_with(']')) return numbers;
  const std::string_view items = std::string_view(text).substr(1, text.size() - 2);
  for (const std::string_view item : split(items, ',')) {
    const auto number = small_number(JsonSlice(strip(item)));
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

// The largest of the pipeline groups that contain the rank; none if two differ.
std::vector<int> pipeline_of(const JsonSlice& info, int rank) {
  std::vector<int> largest;
  bool is_clear = true;
  const auto groups = info.find("pg_config");
  if (!groups || !groups->is_list()) return largest;
  groups->each([&](const JsonSlice& group) {
    if (!names_pipeline(text_of(group.find("pg_desc")))) return;
    std::vector<int> ranks = numbers_of(group.find("ranks").value_or(JsonSlice("null")));
    if (std::ranges::find(ranks, rank) == ranks.end() || ranks.size() < largest.size()) return;
    is_clear = ranks.size() > largest.size() || (is_clear && ranks == largest);
    largest = std::move(ranks);
  });
  return is_clear ? largest : std::vector<int>();
}

void read_distributed_info(ProfileFile& file, const ChromeTrace& trace) {
  const JsonSlice info = member_of(trace, "distributedInfo");
  file.rank = small_number(info.find("rank"));
  file.world_size = small_number(info.find("world_size")).value_or(0);
  file.backend = text_of(info.find("backend"));
  if (file.rank) file.pipeline = pipeline_of(info, *file.rank);
}

void read_members(ProfileFile& file, const ChromeTrace& trace, Warnings& warnings) {
  read_distributed_info(file, trace);
  file.host = text_of(member_of(trace, "host_name"));
  if (const auto device = member_of(trace, "deviceProperties").front()) {
    file.device = text_of(device->find("name"));
  }
  if (const auto entry = trace.members.find("baseTimeNanoseconds"); entry != trace.members.end()) {
    std::string_view text = entry->second;
    if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
    const auto base = whole(text);
    if (base && *base > 0 && *base <= latest_profiled_ns && add_base(file, *base)) {
      file.since_1970 = true;
    } else {
      warnings.add("baseTimeNanoseconds that can't be, not used", file.path);
    }
  }
  if (file.since_1970) return;
  file.since_1970 = !file.ranges.empty() &&
                    std::all_of(file.ranges.begin(), file.ranges.end(),
                                [](const auto& range) { return range.start_ns > year_2001_ns; });
}

}  // namespace

ProfileFile read_profile_head(const std::string& path) {
  ProfileFile file;
  file.path = path;
  read_distributed_info(file, read_chrome_head(path));
  return file;
}

ProfileFile read_profile_file(const std::string& path, Warnings& warnings,
                              const ReadProgress& progress) {
  ProfileFile file;
  file.path = path;
  ProfileCollector collector(file, warnings);
  const ChromeTrace trace = read_chrome_trace(
      path, [&](const ChromeEvent& event) { collector.visit(event); }, warnings, progress);
  read_members(file, trace, warnings);
  return file;
}

}  // namespace pipesim
