// The NPUs of this machine: device nodes, found as the kernel shows them, and what stands between
// the process and each. The one search that opening, listing and examining devices share.
//
// A node of the mainline driver belongs to a platform device `rknn` without a driver of its own
// (the cores are bound to `rocket`); a node of the vendor's to a device bound to `RKNPU`. What a
// node's driver says when it is asked (DRM_IOCTL_VERSION) decides. Containers may have nodes
// without sysfs: then the nodes themselves are asked.
#pragma once

#include <string>
#include <vector>

namespace rk3588 {

struct NpuNode {
  enum class State {
    kUsable,   // its driver said rocket or rknpu
    kMissing,  // the kernel has the device, or its cores a driver, but /dev has no node
    kDenied,   // no permission to open it
    kFailed,   // opening or asking failed, a build of a driver that is not supported, or a chip
               // that nothing can run on
    kForeign,  // of another driver
  };
  std::string path;
  std::string driver;   // "rocket", "rknpu", another one's name, or "" if nobody could be asked
  std::string version;  // "0.0.0"; "" if it could not be asked
  State state = State::kUsable;
  std::string problem;  // one line with a remedy, "" for usable and foreign nodes

  // Whether asking for an NPU without naming one means this node, which may fail to open.
  bool is_candidate() const { return state != State::kMissing && state != State::kForeign; }
};

// "usable", "missing", ...
const char* name_of(NpuNode::State state);

// Nodes of class accel first, then those of drm, in the order of their numbers. Render nodes stand
// for their card. `root` is the directory that holds dev/ and sys/. Opens nodes to ask their
// drivers, but none that sysfs says is another driver's. Never throws for what it finds.
std::vector<NpuNode> find_npu_nodes(const std::string& root);

// Why there is no node of an NPU that the kernel has, in one line with a remedy; "" if it has none,
// or its node.
std::string missing_npu_problem(const std::string& root);

// Whether a path is the vendor driver's node without DRM, which dispatches requests by number
// alone: a DRM request would be taken for another one.
bool is_rknpu_misc_node(const std::string& path);
// The message for such a node.
std::string rknpu_misc_problem(const std::string& path);

}  // namespace rk3588
