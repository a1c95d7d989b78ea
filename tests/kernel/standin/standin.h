// A stand-in for the kernel drivers rocket and rknpu, for tests.
//
// Preloaded into a process it serves device nodes below RK3588_STANDIN_ROOT: a node is a file there
// that says which driver it plays (`driver=rocket`, `version=1.1.0`, ...). Requests follow the
// kernels' semantics and are checked harder than the kernels check them; what a kernel would let
// pass but a program should not do is a violation, kept for the test to read: unlisted buffers that
// a job reaches, buffers closed while the driver holds them, malformed requests of every kind. Jobs
// run on the simulator with a memory of their own, so a forgotten synchronisation shows as a wrong
// result.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chip/chip_gen.h"
#include "span.h"

namespace standin {

struct NodeConfig {
  std::string driver;  // "rocket", "rknpu", "rknpu-misc" (no DRM) or anything else
  int major = 0;
  int minor = 0;
  int patch = 0;
  const rk3588::Chip* chip = &rk3588::kRk3588;
  bool cores_clash = false;  // cores that share CBUF spoil each other's banks whatever jobs say
  uint64_t address_space_bytes = uint64_t{1} << 32;
  unsigned hang_ms = 500;  // how long a hanging job lasts
  // rknpu:
  unsigned cores = 3;       // of the part
  unsigned reset_ms = 200;  // from a job's time-out to its return
  unsigned meet = 1;        // cores that must have been busy at one time before a job runs
  unsigned rest_ms = 3000;  // without a job after a reset, before the IOMMU is attached again
  // MEM_SYNC's reach from the start of a buffer: public modules have synchronised only the first
  // segment of several.
  uint64_t sync_bytes = UINT64_MAX;
  unsigned release_ms = 12;  // rocket: from the end of a job to its references
};

using Clock = std::chrono::steady_clock;

// The real driver drops a job's references to buffers in a work item behind the end of the job, and
// crashes if the file is closed before. How much later is up to the kernel's workers: on a quiet
// machine less than 1 ms, on a loaded one any time. `release_ms` of the node says how long.

// A buffer: what the host sees and what the device sees.
struct Bo {
  ~Bo();
  uint32_t handle = 0;
  uint64_t size = 0;
  uint64_t address = 0;
  uint64_t offset = 0;  // for mmap
  uint64_t object = 0;  // rknpu's name
  uint32_t flags = 0;
  int memory_fd = -1;
  uint8_t* host = nullptr;
  rk3588::Span<uint8_t> device;        // write-combined memory: `host` itself
  std::vector<uint8_t> device_memory;  // where the host's cache is in between
  bool is_imported = false;            // of a descriptor that others have
  bool host_holds = true;              // rocket: between PREP and FINI, and when fresh
  unsigned running_jobs = 0;           // that write it
  Clock::time_point held_until;        // by jobs that are done and not yet released
};
using BoPtr = std::shared_ptr<Bo>;

struct TaskRecord {
  uint64_t regcmd = 0;
  uint32_t regcmd_count = 0;
};

// What an injected fault does to a job, and how far it gets.
enum class Fate { kNormal, kHang, kLost, kGarbage, kLong };

struct Job {
  std::vector<TaskRecord> tasks;
  std::vector<BoPtr> memory;   // what the job lists
  std::vector<BoPtr> others;   // reachable all the same: buffers of the file that it does not list
  std::vector<BoPtr> outputs;  // that wait for the job
  bool chained = false;
  bool ppu_done = false;
  Fate fate = Fate::kNormal;
  size_t hang_at = 0;  // task; kLong: how many ms longer it takes
  const rk3588::Chip* chip = &rk3588::kRk3588;
  bool cores_clash = false;
};

struct File {
  std::string path;
  NodeConfig config;
  std::map<uint32_t, BoPtr> bos;
  uint64_t next_offset = 0x10000000;
  std::list<std::shared_ptr<Job>> queue;  // rocket: jobs in order, the first one may be running
  bool running = false;
  Clock::time_point held_until;  // by jobs that are done and not yet released
  std::vector<BoPtr> closed;     // whose handles are gone while jobs hold them
};
using FilePtr = std::shared_ptr<File>;

// One lock for everything: this is a test, and a kernel in miniature is easier to trust that way.
// Simulation itself runs without it.
struct Kernel {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, FilePtr> files;  // by descriptor
  std::map<uintptr_t, size_t> mappings;
  std::vector<std::string> violations;
  bool gone = false;
  bool forked = false;  // this process is a child of the one that opened the files
};
Kernel& kernel();

void violation(const std::string& text);  // the lock must be held

// Faults: "CALL@N=ACTION" or "CALL@N=ACTION*COUNT", separated by spaces. CALL: open, mmap, VERSION,
// CREATE_BO, SUBMIT, ... N counts from the last reset. ACTION: an errno (ENOMEM), hang[:task],
// lost, garbage, vanish, slow:MS (the call), long:MS (the job, rknpu).
struct Action {
  int error = 0;
  Fate fate = Fate::kNormal;
  size_t hang_at = 0;
};
// Counts the call and says what happens to it. The lock must be held; may sleep.
Action next_action(const std::string& call, std::unique_lock<std::mutex>& lock);

// Buffers. All need the lock.
BoPtr make_bo(File& file, uint64_t size);
BoPtr make_bo_of(File& file, int memory_fd, uint64_t size);  // which takes the descriptor
BoPtr find_bo(File& file, uint32_t handle);
uint64_t allocate_up(const std::vector<BoPtr>& taken, uint64_t size, uint64_t end);
uint64_t allocate_down(const std::vector<BoPtr>& taken, uint64_t size, uint64_t end);
std::vector<BoPtr> bos_of_node(const std::string& path);

// The mask of the word that starts the task's blocks, 0 if there is none. Lock held.
uint32_t enable_mask(const std::vector<BoPtr>& memory, const TaskRecord& task);

// Runs the job without the lock; returns false if it hung. `hang_ms`: how long that takes. `core`:
// the one that it runs on, -1 where nobody chose.
bool execute(const Job& job, unsigned hang_ms, int core);

// The cores of rocket: take jobs from the files' queues. Starts the threads when needed.
void wake_cores();

// Inside the stand-in, on this thread: what it allocates the product does not.
class Inside {
 public:
  Inside() { ++depth(); }
  ~Inside() { --depth(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static int& depth();
};

// Requests; return 0 or errno. The lock is held and may be given up while waiting.
int rocket_request(const FilePtr& file, uint32_t code, void* argument,
                   std::unique_lock<std::mutex>& lock);
int rknpu_request(const FilePtr& file, uint32_t code, void* argument,
                  std::unique_lock<std::mutex>& lock);
int rknpu_misc_request(uint32_t code, void* argument);
int version_request(const File& file, void* argument);

// What hooks call. `path` is below the root.
int open_node(const std::string& path, int flags);  // descriptor, or -1 with errno
void close_node(int descriptor);

}  // namespace standin
