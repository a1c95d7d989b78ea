#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>
#include <tuple>

#include "bindings.h"
#include "gil.h"
#include "host/devices.h"
#include "sim/deviation.h"
#include "sim/simulator.h"

namespace py = pybind11;

namespace rk3588 {
namespace {

using sim::Isa;
using sim::Job;
using sim::Region;
using sim::Settings;
using sim::Simulator;

using TaskTuple = std::tuple<uint64_t, uint32_t, std::string>;

Isa parse_isa(const std::string& name) {
  if (name == "auto") return Isa::kAuto;
  if (name == "portable") return Isa::kPortable;
  if (name == "avx2") return Isa::kAvx2;
  if (name == "avx512vnni") return Isa::kAvx512Vnni;
  if (name == "neon") return Isa::kNeon;
  if (name == "neondot") return Isa::kNeonDot;
  throw py::value_error("unknown instruction set '" + name +
                        "'; known are auto, portable, avx2, avx512vnni, neon and neondot");
}

// Item: (name, address, array) or (name, address, array, initial bytes).
Region parse_region(const py::tuple& item) {
  if (item.size() != 3 && item.size() != 4) {
    throw py::value_error(
        "a region is (name, address, array) or (name, address, array, initial_bytes)");
  }
  Region region;
  region.name = item[0].cast<std::string>();
  region.address = item[1].cast<uint64_t>();
  if (!py::isinstance<py::array_t<uint8_t, py::array::c_style>>(item[2])) {
    throw py::type_error("region " + region.name + " must be a contiguous uint8 array");
  }
  auto array = item[2].cast<py::array_t<uint8_t, py::array::c_style>>();
  // mutable_data() throws for read-only arrays.
  region.bytes = {array.mutable_data(), static_cast<size_t>(array.size())};
  if (item.size() == 4) region.initial_bytes = item[3].cast<uint64_t>();
  return region;
}

sim::Kernel parse_kernel(const std::string& name) {
  if (name.empty()) return sim::Kernel::kNone;
  if (name == "rocket") return sim::Kernel::kRocket;
  if (name == "rknpu") return sim::Kernel::kRknpu;
  throw py::value_error("unknown kernel driver '" + name + "'; known are rocket and rknpu");
}

std::optional<sim::Probe> parse_probe(const py::object& item) {
  if (item.is_none()) return std::nullopt;
  sim::Probe probe;
  if (!py::isinstance<py::tuple>(item)) {
    probe.address = item.cast<uint64_t>();
    return probe;
  }
  const auto [task, channel, y, x] =
      item.cast<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>>();
  if (task > INT32_MAX) throw py::value_error("no run has that many tasks");
  probe.task = static_cast<int>(task);
  probe.channel = channel;
  probe.y = y;
  probe.x = x;
  return probe;
}

// Numbers by name, as delegate/chip/chip.py native_chip gives them; None: RK3588.
Chip parse_chip(const py::object& item, std::string* name) {
  Chip chip = kRk3588;
  if (item.is_none()) return chip;
  const auto numbers = item.cast<py::dict>();
  *name = numbers["name"].cast<std::string>();
  chip.name = *name;
  visit_numbers(
      chip, [&](const char* field, uint32_t& number) { number = numbers[field].cast<uint32_t>(); });
  return chip;
}

py::dict as_dict(const sim::TaskCounters& c) {
  py::dict d;
  d["task"] = c.task;
  d["layer"] = c.layer;
  d["enable_mask"] = c.enable_mask;
  d["macs"] = c.macs;
  d["feature_bytes"] = c.feature_bytes;
  d["weight_bytes"] = c.weight_bytes;
  d["operand_bytes"] = c.operands.all();
  d["mrdma_bytes"] = c.operands.mrdma;
  d["brdma_bytes"] = c.operands.brdma;
  d["nrdma_bytes"] = c.operands.nrdma;
  d["erdma_bytes"] = c.operands.erdma;
  d["written_bytes"] = c.written_bytes;
  d["data_banks"] = c.data_banks;
  d["weight_banks"] = c.weight_banks;
  d["cbuf_data_bytes"] = c.cbuf_data_bytes;
  d["cbuf_weight_bytes"] = c.cbuf_weight_bytes;
  d["npu_cycles"] = c.npu_cycles;
  d["ddr_cycles"] = c.ddr_cycles;
  return d;
}

py::dict as_dict(const sim::ElementWrite& t) {
  py::dict d;
  d["task"] = t.task;
  d["layer"] = t.layer;
  d["address"] = t.address;
  d["element"] = py::make_tuple(t.channel, t.y, t.x);
  d["values"] = t.values;
  d["output"] = t.output;
  d["registers"] = t.registers;
  d["groups"] = t.groups;
  return d;
}

py::dict as_dict(const sim::RunFacts& facts) {
  py::list tasks;
  for (const sim::TaskCounters& c : facts.tasks) tasks.append(as_dict(c));
  py::list writes;
  for (const sim::ElementWrite& t : facts.writes) writes.append(as_dict(t));
  py::dict d;
  d["complaints"] = facts.complaints;
  d["tasks"] = tasks;
  d["writes"] = writes;
  d["earlier_writes"] = facts.earlier_writes;
  return d;
}

py::dict simulate(const std::vector<py::tuple>& region_items,
                  const std::vector<std::vector<TaskTuple>>& job_items, bool chained,
                  unsigned threads, bool plain, const std::string& isa, const std::string& kernel,
                  bool lenient, bool counters, bool dry_run, const py::object& probe,
                  const py::object& chip, const std::string& deviations) {
  std::vector<Region> regions;
  for (const py::tuple& item : region_items) regions.push_back(parse_region(item));
  std::vector<Job> jobs;
  for (const auto& tasks : job_items) {
    Job job;
    for (const auto& [regcmd, count, layer] : tasks) job.tasks.push_back({regcmd, count, layer});
    jobs.push_back(std::move(job));
  }
  Settings settings;
  std::string chip_name;  // outlives the simulator
  settings.chip = parse_chip(chip, &chip_name);
  settings.chained = chained;
  settings.threads = threads;
  settings.plain = plain;
  settings.isa = parse_isa(isa);
  settings.kernel = parse_kernel(kernel);
  settings.lenient = lenient;
  settings.counters = counters;
  settings.dry_run = dry_run;
  settings.deviations = deviations;
  settings.probe = parse_probe(probe);
  sim::RunFacts facts;
  try {
    const GilRelease unlocked;
    facts = Simulator(settings).run(regions, jobs);
  } catch (const sim::Fault& fault) {
    throw DeviceFault(fault.what(), fault);
  }
  return as_dict(facts);
}

py::list deviations() {
  py::list found;
  for (const sim::Deviation& each : sim::known_deviations()) {
    found.append(py::make_tuple(each.name(), each.kind, each.stage, each.what));
  }
  return found;
}

}  // namespace

void bind_simulator(py::module_& module) {
  module.def("deviations", &deviations,
             "Ways in which a simulated chip can be worse (test hook): name, kind of task, stage, "
             "and what such a task does.");
  module.def("simulate", &simulate, py::arg("regions"), py::arg("jobs"), py::arg("chained") = false,
             py::arg("threads") = 0, py::arg("plain") = false, py::arg("isa") = "auto",
             py::arg("kernel") = "", py::arg("lenient") = false, py::arg("counters") = false,
             py::arg("dry_run") = false, py::arg("probe") = py::none(),
             py::arg("chip") = py::none(), py::arg("deviations") = "",
             "Runs jobs of register commands on the simulated NPU.\n\n"
             "regions: (name, device address, writable contiguous uint8 array[, initial_bytes]);\n"
             "jobs: lists of (regcmd address, 64-bit words, layer name);\n"
             "dry_run: every check, no computation;\n"
             "probe: a device address, or (task, channel, row, column) of a task's output;\n"
             "chip: numbers by name (delegate.chip.chip.native_chip), else RK3588's. Raises\n"
             "SimulatorFault or UnsupportedByDevice.");
}

}  // namespace rk3588
