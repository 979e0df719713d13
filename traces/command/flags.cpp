#include "traces/command/flags.h"

#include <algorithm>

namespace pipesim {

void add_flags(CLI::App& app, const std::string& group, std::initializer_list<FlagHelp> flags) {
  for (const FlagHelp& flag : flags) {
    app.add_option(flag.name, *flag.value, flag.help)->type_name(flag.type)->group(group);
  }
}

std::string first_given(const CLI::App& app, const std::vector<std::string>& except) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0 && std::ranges::find(except, option->get_name()) == except.end()) {
      return option->get_name();
    }
  }
  return {};
}

}  // namespace pipesim
