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

namespace pipesim {
namespace {

// A time beyond 2096 or as long before 1970 is none; sums of two stay in range.
constexpr std::int64_t latest_profiled_ns = 4'000'000'000'000'000'000;
// 2001: a time after it that has no base counts from 1970.
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

// Of one element of NCCL's argument "dtype"; 0 where unknown.
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

// Takes a file's events one by one.
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
      // Of a range on the device, the one on the processor says more.
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
  }

  void add_message(const ChromeEvent& event, bool sends) {
    const auto times = times_of(event);
    if (!times) return;
    file_.messages.push_back({thread_of(event), times->start_ns, times->end_ns, sends});
  }

  void add_range(const ChromeEvent& event) {
    if (event.category == "user_annotation") {
      // "gloo:send"; on a device its kernels tell.
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

  // SendRecv is also what all-to-alls are made of, so that only arguments tell.
  static void describe_collective(const ChromeEvent& event, ProfileKernel& kernel) {
    const std::string_view name = event.argument("Collective name");
    if (name == "send") kernel.message = ProfileKernel::Message::send;
    if (name == "recv") kernel.message = ProfileKernel::Message::receive;
    const std::int64_t elements = std::max(argument_or(event, "In msg nelems", {}, 0),
                                           argument_or(event, "Out msg nelems", {}, 0));
    const std::int64_t width = element_bytes(event.argument("dtype"));
    if (width > 0 && elements > 0 && elements <= max_bytes / width) kernel.bytes = elements * width;
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

// Adds `base_ns` to every time; where one then can't be, the base is none.
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

void read_members(ProfileFile& file, const ChromeTrace& trace, Warnings& warnings) {
  const auto member = [&](std::string_view key) {
    const auto entry = trace.members.find(key);
    return JsonSlice(entry == trace.members.end() ? "null" : std::string_view(entry->second));
  };
  const JsonSlice info = member("distributedInfo");
  file.rank = small_number(info.find("rank"));
  file.world_size = small_number(info.find("world_size")).value_or(0);
  file.backend = text_of(info.find("backend"));
  file.host = text_of(member("host_name"));
  if (const auto device = member("deviceProperties").front()) {
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
