#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "evidence/form_evidence.h"
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
                                       const std::string& cores, const std::string& chip) {
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
      job.tasks.push_back({regcmd, count, 0, layer});
    }
  }
  std::vector<size_t> written;
  {
    const GilRelease release;
    const std::shared_ptr<Device> opened = open_device(device, {cores, false});
    written = run_recorded(*opened, buffers, jobs, chip_named(chip), timeout_ms);
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

// Returns the evidence of a device that computes. Throws DeviceError.
std::shared_ptr<FormEvidence> evidence_of(const std::string& device, const std::string& cache_dir,
                                          uint32_t timeout_ms, const std::string& cores) {
  const std::shared_ptr<FormEvidence> evidence =
      FormEvidence::of(open_device(device, {cores, false}),
                       {"always", cache_dir, cores, timeout_ms}, [](const std::string&) {});
  if (evidence == nullptr) throw DeviceError("device " + device + " computes nothing");
  return evidence;
}

py::tuple board_evidence(const std::string& device, const std::string& cache_dir,
                         const std::string& cores, bool forgets,
                         const std::map<std::string, std::string>& proved) {
  std::map<std::string, std::string> states;
  std::string path;
  std::string problem;
  {
    const GilRelease release;
    const std::shared_ptr<FormEvidence> evidence = evidence_of(device, cache_dir, 0, cores);
    evidence->prove(proved);
    states = evidence->states();
    if (forgets) evidence->forget();
    path = evidence->record_path();
    problem = evidence->problem();
  }
  return py::make_tuple(path, problem, states);
}

std::vector<MissingForm> missing_of(const py::buffer& program, const std::string& device,
                                    const std::string& cache_dir, uint32_t timeout_ms,
                                    const std::string& cores) {
  const py::buffer_info info = program.request();
  const GilRelease release;
  return evidence_of(device, cache_dir, timeout_ms, cores)->missing(read_program(content(info)));
}

py::tuple chip_of_npu(const std::string& root) {
  const NpuChip found = find_npu_chip(root);
  const bool is_named = found.naming == NpuChip::Naming::kCores;
  return py::make_tuple(found.name, found.chip != nullptr, is_named);
}

}  // namespace

void bind_devices(py::module_& module) {
  module.def(
      "run_on_device", &run_on_device, py::arg("buffers"), py::arg("jobs"), py::arg("device"),
      py::arg("timeout_ms") = 0, py::arg("cores") = "auto", py::arg("chip") = "rk3588",
      "Runs recorded jobs on a device: (name, recorded address, writable uint8 array) and\n"
      "tasks as (address of the commands, 64-bit words, layer name); chip: that the commands\n"
      "are for, and the device must be. Returns the names of the buffers\n"
      "that tasks write, whose arrays hold the results. Raises DeviceError.");
  module.def(
      "missing_forms", &missing_of, py::arg("program"), py::arg("device"),
      py::arg("cache_dir") = "auto", py::arg("timeout_ms") = 0, py::arg("cores") = "auto",
      "(name, reason) of all that a serialised Program uses and this board must not be given:\n"
      "forms, relations between tasks, or the program by its id. Runs an unknown program, and\n"
      "keeps what came of it. Raises DeviceError.");
  module.def("board_evidence", &board_evidence, py::arg("device"), py::arg("cache_dir") = "auto",
             py::arg("cores") = "auto", py::arg("forgets") = false,
             py::arg("proved") = std::map<std::string, std::string>(),
             "The path of the file of what this board has shown (or \"\"), why it is not used (or\n"
             "\"\"), and by name of a program or form its state; keeps those of `proved` before.\n"
             "Raises DeviceError.");
  module.def(
      "program_id",
      [](const py::buffer& program) {
        const py::buffer_info info = program.request();
        return read_program(content(info)).id;
      },
      py::arg("program"), "The name under which evidence of a serialised Program is kept.");
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
      "The chip of this machine's NPU, as \"rk3588\", \"\" if nothing says; whether programs can\n"
      "be compiled for it; whether the NPU's cores are called after it and after no other.");
}

}  // namespace rk3588
