#include "sim/flags/profile_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <system_error>

#include "sim/flags/schedule_choice.h"
#include "sim/schedule/description.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

std::vector<std::string> program_of_file(const std::string& path, const std::string& flag) {
  std::error_code failed;
  if (!names_a_file(path) && !std::filesystem::exists(path, failed)) {
    throw input_error(
        fmt::format("{}: {} is not a file; give one that holds what each rank ran, as `pipesim "
                    "schedule convert "
                    "1f1b --stages 2 --microbatches 4 -o order.csv` writes it",
                    flag, quote(path)));
  }
  return rows_of(read_schedule(path));
}

std::vector<int> parse_ranks(const std::string& text) {
  std::vector<int> ranks;
  for (const std::string_view part : split(text, ',')) {
    const std::string_view number = strip(part);
    int rank = 0;
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), rank);
    if (fault != std::errc() || end != number.data() + number.size() || rank < 0 ||
        rank > max_count) {
      throw input_error(fmt::format(
          "--ranks: {} is not a rank; give numbers from 0 on, as 0,4,8,12", quote(number)));
    }
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::vector<FlagHelp> profile_flag_help(ProfileFlags& flags) {
  return {{flags.schedule_name, &flags.schedule, "FILE",
           "names the actions that a profile leaves unnamed"},
          {"--ranks", &flags.ranks, "0,4,8,12", "ranks of the pipeline in a job, one file each"},
          {"--replica", &flags.replica, "N", "which pipeline of a job with several; default 1"}};
}

ProfileOptions profile_options(const ProfileFlags& flags) {
  if (flags.ranks && flags.replica) {
    throw input_error(
        "--replica has no effect with --ranks, which names the pipeline; omit one of them");
  }
  ProfileOptions options;
  if (flags.ranks) options.ranks = parse_ranks(*flags.ranks);
  if (flags.replica) options.replica = parse_count(*flags.replica, "--replica");
  options.program_flag = flags.schedule_name;
  if (flags.schedule) options.program = program_of_file(*flags.schedule, flags.schedule_name);
  return options;
}

}  // namespace pipesim
