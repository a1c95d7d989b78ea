#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "evidence/feature_proofs.h"
#include "evidence/feature_use.h"
#include "gil.h"
#include "host/devices.h"
#include "host/npu_chip.h"
#include "host/npu_nodes.h"
#include "host/recorded_run.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using Bytes = py::array_t<uint8_t, py::array::c_style>;
using TaskTuple = std::tuple<uint64_t, uint32_t, std::string>;

std::vector<std::string> run_on_device(const std::vector<py::tuple>& items,
                                       const std::vector<std::vector<TaskTuple>>& job_items,
                                       const std::string& device, uint32_t timeout_ms,
                                       const std::string& cores) {
  std::vector<Bytes> arrays;
  std::vector<RecordedBuffer> buffers;
  for (const py::tuple& item : items) {
    if (item.size() != 3 || !py::isinstance<Bytes>(item[2])) {
      throw py::value_error("a buffer is (name, address, contiguous uint8 array)");
    }
    arrays.push_back(item[2].cast<Bytes>());
    // mutable_data() throws for read-only arrays.
    const Span<uint8_t> content(arrays.back().mutable_data(),
                                static_cast<size_t>(arrays.back().size()));
    buffers.emplace_back(item[0].cast<std::string>(), item[1].cast<uint64_t>(), content);
  }
  std::vector<JobRef> jobs;
  for (const auto& tasks : job_items) {
    JobRef& job = jobs.emplace_back();
    for (const auto& [regcmd, count, layer] : tasks) {
      job.tasks.push_back({regcmd, count, 0, 0, layer});
    }
  }
  std::vector<size_t> written;
  {
    const GilRelease release;
    const std::shared_ptr<Device> opened = open_device(device, {cores, false});
    written = run_recorded(*opened, buffers, jobs, timeout_ms);
  }
  std::vector<std::string> names;
  for (const size_t index : written) names.push_back(buffers[index].name());
  return names;
}

py::list npu_nodes(const std::string& root) {
  std::vector<NpuNode> nodes;
  {
    const GilRelease release;
    nodes = find_npu_nodes(root);
  }
  py::list result;
  for (const NpuNode& node : nodes) {
    result.append(
        py::make_tuple(node.path, node.driver, node.version, name_of(node.state), node.problem));
  }
  return result;
}

py::list features_of_program(const py::buffer& program) {
  const py::buffer_info info = program.request();
  const Program parsed = read_program(content(info));
  const FeatureSet found = features_of(parsed);
  const FeatureTable& table = feature_table(*parsed.chip);
  py::list names;
  for (size_t i = 0; i < table.count; ++i) {
    if (found[i]) names.append(table.features[i].name);
  }
  return names;
}

py::tuple prove_features(const std::string& device, const std::string& cache_dir,
                         uint32_t timeout_ms, const std::string& cores, const std::string& which) {
  using Wanted = FeatureProofs::Wanted;
  const std::map<std::string, Wanted> words = {
      {"none", Wanted::kNothing}, {"untried", Wanted::kUntried}, {"all", Wanted::kAll}};
  const auto word = words.find(which);
  if (word == words.end()) throw py::value_error("which is none, untried or all");
  std::vector<std::pair<std::string, std::string>> states;
  std::string path;
  {
    const GilRelease release;
    const ProofSettings settings{"always", cache_dir, cores, timeout_ms};
    const std::shared_ptr<FeatureProofs> proofs =
        FeatureProofs::of(open_device(device, {cores, false}), settings, [](const std::string&) {});
    if (proofs == nullptr) throw DeviceError("device " + device + " computes nothing");
    const std::vector<std::string> all = proofs->states(word->second);
    for (size_t i = 0; i < all.size(); ++i) {
      states.emplace_back(proofs->features().features[i].name, all[i]);
    }
    path = proofs->record_path();
  }
  py::dict found;
  for (const auto& [name, state] : states) found[name.c_str()] = state;
  return py::make_tuple(path, found);
}

py::tuple chip_of_npu(const std::string& root) {
  const NpuChip found = find_npu_chip(root);
  const bool is_named = found.naming == NpuChip::Naming::kCores;
  return py::make_tuple(found.name, found.chip != nullptr, is_named);
}

}  // namespace

void bind_devices(py::module_& module) {
  module.def("run_on_device", &run_on_device, py::arg("buffers"), py::arg("jobs"),
             py::arg("device"), py::arg("timeout_ms") = 0, py::arg("cores") = "auto",
             "Runs recorded jobs on a device: (name, recorded address, writable uint8 array) and\n"
             "tasks as (address of the commands, 64-bit words, layer name). Returns the names of\n"
             "the buffers that tasks write, whose arrays hold the results. Raises DeviceError.");
  module.def("features_of", &features_of_program, py::arg("program"),
             "Names of the features of the hardware that a serialised Program uses.");
  module.def("prove_features", &prove_features, py::arg("device"), py::arg("cache_dir") = "off",
             py::arg("timeout_ms") = 0, py::arg("cores") = "auto", py::arg("which") = "none",
             "The path of the file of this board's results, and of every feature \"proved\",\n"
             "\"failed: ...\", \"hung: ...\" or \"\"; `which` proofs run first: none, those that\n"
             "nobody tried (\"untried\"), or all again. Raises DeviceError.");
  module.def(
      "find_npu_nodes", &npu_nodes, py::arg("root") = "/",
      "(path, driver, version, state, problem) of the nodes that are NPUs or look like one.");
  module.def(
      "open_device_name",
      [](const std::string& device, bool strict) {
        return open_device(device, {"auto", strict})->name();
      },
      py::arg("device") = "auto", py::arg("strict") = false,
      "Name of the device that `device` opens. Raises DeviceError.");
  module.def("find_npu_node", &find_npu_node, py::arg("root") = "/",
             "Path of the node that device=auto takes, or \"\".");
  module.def(
      "npu_chip", &chip_of_npu, py::arg("root") = "/",
      "The chip of this machine's NPU, as \"rk3576\", \"\" if nothing says; whether programs can "
      "be\n"
      "compiled for it; whether the NPU's cores are called after it and after no other.");
}

}  // namespace rk3588
