// The Python module pipesim._core: predictions and schedules in this process.
//
// It gives Python what the libraries return and decides nothing: texts of flags go in as the
// command line has them, results come out as the same objects. Simulating runs without the GIL:
// calls share nothing. Objects are immutable once made; arrays keep their spans alive.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/cli/prediction.h"
#include "sim/cli/report.h"
#include "sim/engine/record_run.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/large_vector.h"
#include "traces/base/text.h"
#include "traces/print/figure.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace pipesim::python {
namespace {

using cli::AskedPrediction;
using cli::PredictFlags;

using Spans = LargeVector<Span>;

// One column of spans, without a copy: strided over them.
template <typename T>
nb::ndarray<nb::numpy, const T, nb::ndim<1>> column(const std::shared_ptr<const Spans>& spans,
                                                    const T& in_first) {
  static_assert(sizeof(Span) % sizeof(T) == 0);
  auto* owner = new std::shared_ptr<const Spans>(spans);
  const nb::capsule capsule(
      owner, [](void* held) noexcept { delete static_cast<std::shared_ptr<const Spans>*>(held); });
  return {&in_first, {spans->size()}, capsule, {std::int64_t{sizeof(Span) / sizeof(T)}}};
}

struct SpanColumns {
  std::shared_ptr<const Spans> spans;  // at least one
};

class Predicted {
 public:
  explicit Predicted(const PredictFlags& flags)
      : asked_(cli::prepare(flags, {})), prediction_(asked_.prepared.predict()) {}

  const Prediction& prediction() const { return prediction_; }
  std::string json() const {
    return cli::json_of(asked_, prediction_, cli::find_details(asked_, prediction_));
  }
  std::string svg() const {
    return draw_figure({{"", {cli::timeline_of(asked_.prepared, prediction_)}, ""}},
                       FigureForm::svg);
  }
  void write_trace(const std::string& path) const {
    OutputFile file(path, path.ends_with(".gz"));
    cli::write_trace(asked_.prepared, file);
    file.commit();
  }
  // All iterations', computes and transfers.
  SpanColumns spans() const {
    const auto& prepared = asked_.prepared;
    RecordedRun run = record_run(prepared.choice.schedule, prepared.costs, prepared.options);
    auto spans = std::make_shared<Spans>(std::move(run.spans));
    if (spans->empty()) throw work_error("the prediction has no spans");
    return {std::move(spans)};
  }

 private:
  AskedPrediction asked_;
  Prediction prediction_;
};

// Turns keywords into predictions. Making a list of all flags takes longer than a small prediction:
// it is made once, and its texts are removed after each use.
class Predictor {
 public:
  explicit Predictor(nb::object warning) : warning_(std::move(warning)) {
    for (const FlagHelp& flag : cli::answer_flags(flags_)) {
      std::string keyword = flag.name.substr(2);
      std::ranges::replace(keyword, '-', '_');
      variables_.emplace(std::move(keyword), flag.value);
    }
  }

  // None where a keyword or the type of a value is not known here.
  std::unique_ptr<Predicted> predict(const nb::dict& given) {
    std::optional<PredictFlags> flags = read(given);
    if (!flags) return nullptr;
    std::vector<std::string> remarks;
    flags->costs.model.notes = &remarks;
    std::unique_ptr<Predicted> predicted;
    {
      const nb::gil_scoped_release released;
      predicted = std::make_unique<Predicted>(*flags);
    }
    for (const std::string& remark : remarks) {
      if (PyErr_WarnEx(warning_.ptr(), remark.c_str(), 2) != 0) throw nb::python_error();
    }
    return predicted;
  }

 private:
  using Variable = decltype(FlagHelp::value);

  bool set(const Variable& variable, nb::handle value) {
    if (auto* const* text = std::get_if<Flag*>(&variable)) {
      if (*text == &flags_.schedule.schedule && nb::isinstance<Schedule>(value)) {
        flags_.schedule.own = std::make_shared<const Schedule>(nb::cast<const Schedule&>(value));
        **text = flags_.schedule.own->name;
        return true;
      }
      if (PyUnicode_CheckExact(value.ptr()) != 0) {
        Py_ssize_t size = 0;
        const char* const utf8 = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
        if (utf8 == nullptr) throw nb::python_error();
        if (std::string_view(utf8).size() != static_cast<std::size_t>(size)) return false;
        (*text)->emplace(utf8);
      } else if (PyLong_CheckExact(value.ptr()) != 0) {
        **text = nb::cast<std::string>(nb::str(value));
      } else {
        return value.is_none();
      }
    } else if (auto* const* is_on = std::get_if<bool*>(&variable)) {
      **is_on = value.ptr() == Py_True;
      return **is_on || value.ptr() == Py_False || value.is_none();
    }
    return true;
  }

  static void remove(const Variable& variable) {
    if (auto* const* text = std::get_if<Flag*>(&variable)) (*text)->reset();
    if (auto* const* is_on = std::get_if<bool*>(&variable)) **is_on = false;
  }

  std::optional<PredictFlags> read(const nb::dict& given) {
    const std::scoped_lock lock(mutex_);
    std::vector<const Variable*> used;
    bool known = true;
    for (const auto& [key, value] : given) {
      const auto found = variables_.find(nb::cast<const char*>(key));
      known = found != variables_.end();
      if (!known) break;
      used.push_back(&found->second);
      known = set(found->second, value);
      if (!known) break;
    }
    std::optional<PredictFlags> flags;
    if (known) flags = flags_;
    for (const Variable* one : used) remove(*one);
    flags_.schedule.own.reset();
    return flags;
  }

  nb::object warning_;
  std::mutex mutex_;
  PredictFlags flags_;
  std::unordered_map<std::string, Variable> variables_;
};

// A list's actions as texts; those of one cell are joined by ';', as in a CSV.
std::vector<std::vector<std::string>> rows_of(const Schedule& schedule) {
  std::vector<std::vector<std::string>> rows;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    const std::string text = csv_row(schedule.actions[rank]);
    const std::vector<std::string_view> cells = split(text, ',');
    rows.emplace_back(cells.begin(), cells.end());
  }
  return rows;
}

// Throws with the cycle if it would never end.
Schedule that_ends(Schedule schedule) {
  if (find_deadlock(schedule, SendMode::buffered)) throw_deadlock(schedule);
  return schedule;
}

void add_spans(nb::module_& module) {
  nb::class_<SpanColumns> all(module, "Spans");
  all.def("__len__", [](const SpanColumns& columns) { return columns.spans->size(); });
  // `member`: of a span, the value in this column.
  const auto add = [&](const char* name, auto member) {
    all.def_prop_ro(
        name,
        [member](const SpanColumns& columns) {
          return column(columns.spans, member(columns.spans->front()));
        },
        nb::rv_policy::reference);
  };
  add(
      "rank", [](const Span& span) -> const auto& { return span.rank; });
  add(
      "stage", [](const Span& span) -> const auto& { return span.action.stage; });
  add(
      "microbatch", [](const Span& span) -> const auto& { return span.action.microbatch; });
  add(
      "kind", [](const Span& span) -> const auto& {
        return reinterpret_cast<const std::uint8_t&>(span.action.kind);
      });
  add(
      "iteration", [](const Span& span) -> const auto& { return span.iteration; });
  add(
      "start_ns", [](const Span& span) -> const auto& { return span.start_ns; });
  add(
      "end_ns", [](const Span& span) -> const auto& { return span.end_ns; });
  add(
      "input_sent_ns", [](const Span& span) -> const auto& { return span.input_sent_ns; });
  add(
      "input_arrival_ns", [](const Span& span) -> const auto& { return span.input_arrival_ns; });
  add(
      "bytes", [](const Span& span) -> const auto& { return span.bytes; });
}

void add_predictions(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Predicted>(module, "Predicted")
      .def_prop_ro("makespan_ns",
                   [](const Predicted& one) { return one.prediction().metrics.makespan_ns; })
      .def_prop_ro("peak_memory_bytes",
                   [](const Predicted& one) { return one.prediction().peak_memory_bytes(); })
      .def("json", &Predicted::json, Release())
      .def("svg", &Predicted::svg, Release())
      .def("spans", &Predicted::spans, Release())
      .def("write_trace", &Predicted::write_trace, "path"_a, Release());
  nb::class_<Predictor>(module, "Predictor")
      .def(nb::init<nb::object>(), "warning"_a)
      .def("predict", &Predictor::predict, "keywords"_a);
}

void add_schedules(nb::module_& module) {
  nb::class_<Schedule>(module, "Schedule")
      .def_ro("name", &Schedule::name)
      .def_ro("microbatches", &Schedule::microbatches)
      .def_prop_ro("ranks", &Schedule::ranks)
      .def_prop_ro("rank_of_stage",
                   [](const Schedule& one) {
                     std::vector<int> ranks;
                     for (int stage = 0; stage < one.stages(); ++stage) {
                       ranks.push_back(one.placement.rank_of(stage));
                     }
                     return ranks;
                   })
      .def("rows", &rows_of)
      .def("csv", &to_csv);
  module.def(
      "family",
      [](std::string name, std::string stages, std::string microbatches,
         std::optional<std::string> virtual_stages, std::optional<std::string> group,
         std::optional<std::string> placement, bool overlap_experts) {
        const nb::gil_scoped_release released;
        return choose_schedule({std::move(name),
                                std::move(stages),
                                std::move(microbatches),
                                std::move(virtual_stages),
                                std::move(group),
                                std::move(placement),
                                overlap_experts,
                                {}},
                               BytesNeeded{})
            .schedule;
      },
      "name"_a, "stages"_a, "microbatches"_a, "virtual_stages"_a = nb::none(),
      "group"_a = nb::none(), "placement"_a = nb::none(), "overlap_experts"_a = false);
  module.def(
      "parse",
      [](const std::string& text, const std::string& name) {
        return that_ends(parse_schedule(text, name));
      },
      "text"_a, "name"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def(
      "read", [](const std::string& path) { return that_ends(read_schedule(path)); }, "path"_a,
      nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace
}  // namespace pipesim::python

NB_MODULE(_core, module) {
  using namespace pipesim;
  nb::set_leak_warnings(false);  // what the interpreter keeps at its end is no news to a user
  module.attr("version") = PIPESIM_VERSION;
  std::vector<std::string> kinds;
  for (int kind = 0; kind < kind_count; ++kind) {
    kinds.emplace_back(kind_name(static_cast<Kind>(kind)));
  }
  module.attr("kinds") = nb::cast(kinds);
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const nb::python_error&) {
          throw;
        } catch (const nb::builtin_exception&) {
          throw;
        } catch (const std::exception& error) {
          PyErr_SetString(static_cast<PyObject*>(type), printable(as_error(error).what()).c_str());
        }
      },
      nb::module_::import_("pipesim.errors").attr("PipesimError").ptr());
  python::add_spans(module);
  python::add_predictions(module);
  python::add_schedules(module);
}
