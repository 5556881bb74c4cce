// The native module. This folder is the border with Python, and the only one that
// includes nanobind: it checks what comes in, hands the core plain views, releases
// the GIL, and writes the messages of errors.

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../names.hpp"
#include "../parallel.hpp"
#include "../parse.hpp"
#include "arrays.hpp"
#include "auto.hpp"
#include "dicts.hpp"
#include "digest.hpp"
#include "embedded.hpp"
#include "messages.hpp"
#include "model.hpp"
#include "named.hpp"
#include "numbering.hpp"
#include "parquet.hpp"
#include "reader.hpp"
#include "rows.hpp"
#include "scores.hpp"
#include "vw.hpp"

using namespace nb::literals;

namespace pqr::bind {
namespace {

nb::tuple parse_libsvm(const nb::object& text, bool last, const std::string& loss,
                       std::int64_t first_line, bool skip) {
  const pqr::Loss chosen = loss_named(loss);
  Py_buffer buffer;
  if (PyObject_GetBuffer(text.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  RowBuffer rows;
  std::vector<BadRow> bad;
  Parsed parsed{};
  {
    nb::gil_scoped_release release;
    parsed =
        parse_libsvm(static_cast<const char*>(buffer.buf), static_cast<std::size_t>(buffer.len),
                     last, chosen, skip, first_line, rows, bad);
  }
  PyBuffer_Release(&buffer);
  nb::list wrong;
  for (const BadRow& row : bad) {
    wrong.append(
        nb::make_tuple(static_cast<int>(row.kind), row.line, row.byte, row.offset, row.length));
  }
  return nb::make_tuple(give(std::move(rows.indptr)), give(std::move(rows.indices)),
                        give(std::move(rows.values)), give(std::move(rows.labels)),
                        give(std::move(rows.weights)), give(std::move(rows.lines)), parsed.consumed,
                        parsed.lines, wrong);
}

nb::bytes format_libsvm(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                        const In<float>& values, const In<double>& labels,
                        const In<float>& weights) {
  const std::string text = pqr::format_libsvm(view(indptr, indices, values, labels, weights));
  return nb::bytes(text.data(), text.size());
}

// Arguments that people give: where their type is wrong, one sentence instead of nanobind's list.
template <class T>
T argument(nb::handle given, const char* wanted) {
  T value;
  if (nb::try_cast(given, value)) return value;
  const std::string shown = nb::repr(given).c_str();
  constexpr std::size_t most_shown = 40;  // characters: the message stays on a line
  throw nb::type_error((wanted + (", not " + shown.substr(0, most_shown))).c_str());
}
std::uint32_t feature_of(nb::handle given) {
  return argument<std::uint32_t>(given, "a feature must be a whole number from 0 to 4294967295");
}
std::uint64_t next_of(nb::handle given) {
  return argument<std::uint64_t>(given, "next_feature must be a whole number from 0 on");
}
std::string_view name_of(nb::handle given) {
  return argument<std::string_view>(given, "a name must be a str");
}

// What every native learner offers.
template <class Learner>
nb::class_<Learner> learner(nb::module_& m, const char* name) {
  return nb::class_<Learner>(m, name)
      .def("learn", &Learner::learn, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert())
      .def("margin", &Learner::margin, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert())
      .def("predict", &Learner::predict, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert())
      .def("why_refused", &Learner::why_refused, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert(), "learns"_a)
      .def("learn_dict", &Learner::learn_dict, "x"_a, "label"_a, "weight"_a)
      .def("margin_dict", &Learner::margin_dict, "x"_a)
      .def("predict_dict", &Learner::predict_dict, "x"_a)
      .def("hold", &Learner::hold)
      .def("release", &Learner::release)
      .def_prop_rw("next_feature", &Learner::next_feature, &Learner::set_next_feature)
      .def_prop_rw("rows", &Learner::rows, &Learner::set_rows)
      .def_prop_rw("names", &Learner::names, &Learner::set_names);
}

}  // namespace
}  // namespace pqr::bind

NB_MODULE(_core, m) {
  using namespace pqr::bind;

  m.doc() = "The native core: rows, counting, learning.";
  nb::set_leak_warnings(false);  // a model that lives as long as the program is not a leak

  m.def("set_thread_bound", [](std::size_t threads) { pqr::thread_bound = threads; }, "threads"_a);
  m.def("check_rows", &check_rows, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("make_rows", &make_rows, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("check_targets", &check_targets, "loss"_a, "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("link", &link_array, "loss"_a, "margins"_a.noconvert());
  m.def("loss_at", &loss_at, "loss"_a, "margin"_a, "label"_a);
  m.def("sum_rows", &sum_rows, "loss"_a, "margins"_a.noconvert(), "labels"_a.noconvert(),
        "weights"_a.noconvert());
  m.def("bin_clicks", &bin_clicks, "bins"_a.noconvert(), "reach"_a, "margins"_a.noconvert(),
        "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("compare_clicks", &compare_clicks, "bins"_a.noconvert());
  m.def("parse_libsvm", &parse_libsvm, "text"_a, "last"_a, "loss"_a, "first_line"_a, "skip"_a);
  m.def("format_libsvm", &format_libsvm, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("parse_vw", &read_vw, "text"_a, "skip"_a, "first_line"_a);
  m.attr("BAD_VW_MESSAGES") =
      std::vector<std::string>(pqr::bad_vw_messages.begin(), pqr::bad_vw_messages.end());
  m.attr("TOO_LARGE") = too_large;
  m.attr("MOST_HIGH") = pqr::Auto::most_high;
  m.attr("BAD_ROW_MESSAGES") = std::vector<std::string>(bad_messages.begin(), bad_messages.end());
  m.attr("LABEL_UNFIT") = static_cast<int>(pqr::Bad::label_unfit);
  nb::dict wanted;
  for (const pqr::Loss loss : pqr::all_losses) wanted[pqr::name_of(loss)] = pqr::wants(loss);
  m.attr("LABELS_WANTED") = wanted;

  nb::class_<pqr::Names>(m, "Names")
      .def(nb::init<>())
      .def("__len__", &pqr::Names::size)
      .def("copy",
           [](const pqr::Names& names) {
             auto copy = std::make_unique<pqr::Names>();
             names.each_sorted(
                 [&](std::uint32_t index, std::string_view name) { copy->add(index, name); });
             return copy;
           })
      .def(
          "add",
          [](pqr::Names& names, nb::handle feature, nb::handle name) {
            return names.add(feature_of(feature), name_of(name));
          },
          "feature"_a.none(), "name"_a.none(),
          nb::sig("def add(self, feature: int, name: str) -> bool"))
      .def(
          "find",
          [](const pqr::Names& names, nb::handle name) -> std::optional<std::uint32_t> {
            const std::uint32_t* index = names.find(name_of(name));
            return index ? std::optional<std::uint32_t>(*index) : std::nullopt;
          },
          "name"_a.none(), nb::sig("def find(self, name: str) -> int | None"))
      .def("add_each", &add_each, "indices"_a.noconvert(), "offsets"_a.noconvert(),
           "bytes"_a.noconvert())
      .def_prop_ro("next_feature", &pqr::Names::next_feature)
      .def(
          "start_at",
          [](pqr::Names& names, nb::handle next_feature) { names.start_at(next_of(next_feature)); },
          "next_feature"_a.none(), nb::sig("def start_at(self, next_feature: int) -> None"))
      .def(
          "name",
          [](const pqr::Names& names, nb::handle feature) -> std::optional<nb::str> {
            const std::string_view name = names.name(feature_of(feature));
            if (name.empty()) return std::nullopt;
            return nb::str(as_str(name));
          },
          "feature"_a.none(), nb::sig("def name(self, feature: int) -> str | None"))
      .def("arrays", &name_arrays)
      .def("restore", &restore_names, "indices"_a.noconvert(), "ends"_a.noconvert(),
           "bytes"_a.noconvert());

  nb::class_<pqr::Coding>(m, "Coding")
      .def(nb::init<>())
      .def("__len__", [](const pqr::Coding& coding) { return coding.offsets.size() - 1; })
      .def("code", &code_texts<std::int32_t>, "offsets"_a.noconvert(), "bytes"_a.noconvert(),
           "valid"_a = nb::none())
      .def("code", &code_texts<std::int64_t>, "offsets"_a.noconvert(), "bytes"_a.noconvert(),
           "valid"_a = nb::none())
      .def("texts", &coded_texts, "first"_a = 0);
  nb::class_<pqr::Lookup>(m, "Lookup").def(nb::init<>()).def("__len__", &pqr::Lookup::codes);
  m.def("number_rows", &number_rows, "columns"_a, "rows"_a, "known"_a, "fresh"_a, "hash_bits"_a,
        "most"_a);

  m.def("page_headers", &page_headers, "chunk"_a.noconvert(), "values"_a);
  m.def("page_texts", &page_texts, "page"_a.noconvert(), "count"_a);
  nb::class_<HeldCodes>(m, "PageCodes")
      .def(nb::init<>())
      .def("open", &HeldCodes::open, "page"_a.noconvert(), "values"_a, "nullable"_a, "texts"_a)
      .def_prop_ro("left", &HeldCodes::left)
      .def("read", &HeldCodes::read, "out"_a.noconvert(), "first"_a);

  nb::class_<pqr::Digest>(m, "Digest")
      .def(nb::init<>())
      .def("update", &update_digest, "data"_a)
      .def("value", &pqr::Digest::value);

  nb::class_<NamedCounter>(m, "Counter")
      .def(nb::init<>())
      .def("add", &NamedCounter::add, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert())
      .def("add_dict", &NamedCounter::add_dict, "x"_a)
      .def("top", &NamedCounter::top, "order"_a, "min_count"_a)
      .def_prop_ro("rows", [](const NamedCounter& c) { return c.counter.rows(); })
      .def_prop_ro("distinct", [](const NamedCounter& c) { return c.counter.distinct(); })
      .def_ro("names", &NamedCounter::names);

  nb::class_<DictReader>(m, "DictReader")
      .def(nb::init<>())
      .def("read", &DictReader::read, "x"_a, "next_feature"_a)
      .def("read_labelled", &DictReader::read_labelled, "x"_a, "next_feature"_a, "loss"_a,
           "label"_a, "weight"_a)
      .def("keep", &DictReader::keep)
      .def_prop_rw("names", &DictReader::names, &DictReader::set_names);

  nb::class_<pqr::Splits>(m, "Splits");
  nb::class_<SharedSeparation>(m, "Separation")
      .def(nb::init<const In<std::uint32_t>&>(), "high"_a.noconvert())
      .def("split", &SharedSeparation::split, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert());

  learner<NamedModel>(m, "Model")
      .def(nb::init<const SharedSeparation&, const std::string&, bool, bool, float, std::size_t,
                    const std::string&, const Rates&, bool, std::size_t>(),
           "separation"_a, "loss"_a, "bias"_a, "all_high"_a, "interaction_scale"_a, "max_pairs"_a,
           "optimizer"_a, "rates"_a, "shares_pairs"_a = false,
           "most_high"_a = pqr::ExpandRule{}.most_high)
      .def("learn_split", &NamedModel::learn_split, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert(), "splits"_a,
           "first"_a)
      .def("terms", &NamedModel::terms, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert())
      .def("state", &NamedModel::state, "block"_a)
      .def("restore", &NamedModel::restore, "block"_a, "keys"_a.noconvert(), "slots"_a.noconvert())
      .def("pair_counts", &NamedModel::pair_counts)
      .def("pairs", &NamedModel::pairs, "first"_a, "counts"_a.noconvert())
      .def("restore_pairs", &NamedModel::restore_pairs, "counts"_a.noconvert(),
           "ranks"_a.noconvert(), "slots"_a.noconvert())
      .def("weights", &NamedModel::weights, "block"_a, "slots"_a.noconvert())
      .def("slots", &NamedModel::slots, "block"_a, "weights"_a.noconvert(), "n"_a.noconvert())
      .def_prop_rw("bias", &NamedModel::bias, &NamedModel::set_bias)
      .def_prop_ro("bias_weight", &NamedModel::bias_weight)
      .def_prop_rw("max_pairs", &NamedModel::max_pairs, &NamedModel::set_max_pairs)
      .def("nonzeros", &NamedModel::nonzeros, "block"_a)
      .def_prop_rw("scalars", &NamedModel::scalars, &NamedModel::set_scalars)
      .def("high", &NamedModel::high);

  learner<NamedAuto>(m, "Auto")
      .def(nb::init<const std::string&, std::uint64_t, std::uint64_t>(), "loss"_a,
           "most_features"_a, "most_pairs"_a)
      .def("state", &NamedAuto::state)
      .def("restore", &NamedAuto::restore, "features"_a.noconvert(), "counts"_a.noconvert(),
           "exponents"_a.noconvert(), "slots"_a.noconvert(), "shared"_a.noconvert(),
           "pairs"_a.noconvert(), "pair_slots"_a.noconvert())
      .def("high", &NamedAuto::high)
      .def("set_high", &NamedAuto::set_high, "high"_a.noconvert(), "waiting"_a.noconvert())
      .def("sizes", &NamedAuto::sizes)
      .def("expert_margins", &NamedAuto::expert_margins, "x"_a)
      .def("priors", &NamedAuto::priors)
      .def_prop_rw("scalars", &NamedAuto::scalars, &NamedAuto::set_scalars);

  learner<NamedFm>(m, "Fm")
      .def(nb::init<const std::string&, bool, std::size_t, std::uint64_t, float, bool, bool,
                    const std::vector<double>&>(),
           "loss"_a, "bias"_a, "dimension"_a, "seed"_a, "init"_a, "adaptive"_a, "decays"_a,
           "rates"_a)
      .def("state", &NamedFm::state)
      .def("restore", &NamedFm::restore, "features"_a.noconvert(), "linear"_a.noconvert(),
           "factors"_a.noconvert(), "sums"_a.noconvert())
      .def_prop_rw("bias", &NamedFm::bias, &NamedFm::set_bias);

  learner<NamedDifacto>(m, "Difacto")
      .def(nb::init<const std::string&, bool,
                    const std::vector<std::pair<std::uint32_t, std::size_t>>&, std::uint64_t, float,
                    const std::vector<double>&, const std::vector<double>&>(),
           "loss"_a, "bias"_a, "tiers"_a, "seed"_a, "init"_a, "ftrl"_a, "adagrad"_a)
      .def("state", &NamedDifacto::state)
      .def("restore", &NamedDifacto::restore, "features"_a.noconvert(), "counts"_a.noconvert(),
           "slots"_a.noconvert(), "factors"_a.noconvert(), "sums"_a.noconvert())
      .def("weights", &NamedDifacto::weights, "slots"_a.noconvert())
      .def_prop_rw("bias", &NamedDifacto::bias, &NamedDifacto::set_bias)
      .def_prop_ro("bias_weight", &NamedDifacto::bias_weight);
}
