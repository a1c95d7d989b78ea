#include "rocket/rocket_submission.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "host/run_log.h"
#include "host/run_mark.h"
#include "rocket/rocket_job.h"

namespace rk3588 {
namespace {

constexpr uint64_t kNoTarget = UINT64_MAX;

// The buffers of one worker, in the order of the submit's inputs and outputs.
struct Worker {
  std::shared_ptr<RocketFile> file;
  std::vector<RocketBuffer*> inputs;
  std::vector<RocketBuffer*> outputs;
  std::vector<std::unique_ptr<RocketBuffer>> copies;  // that the first worker has not
};

// A place of a worker's memory.
struct Place {
  RocketBuffer* buffer = nullptr;
  size_t offset = 0;
  uint8_t* bytes() const { return buffer->bytes().data() + offset; }
};

struct Mark {
  Place place;
  std::string layer;
};

struct Launch {
  std::unique_ptr<RocketJob> job;
  std::vector<Mark> marks;
};

struct Copy {
  Place from;
  Place to;
  size_t size = 0;
};

struct Epoch {
  std::vector<Launch> launches;
  std::vector<Copy> copies;
};

RocketBuffer* rocket_buffer(Buffer* buffer) { return static_cast<RocketBuffer*>(buffer); }

// A submit that reads the same commands from copies of its buffers, which become the worker's.
Submit mirrored(const Submit& submit, Worker* worker) {
  std::vector<Buffer*> from = submit.inputs;
  from.insert(from.end(), submit.outputs.begin(), submit.outputs.end());
  Submit result = submit;
  std::vector<Buffer*> to;
  for (Buffer* source : from) {
    const Span<uint8_t> content = source->bytes();
    worker->copies.push_back(std::make_unique<RocketBuffer>(worker->file, content.size()));
    to.push_back(worker->copies.back().get());
    std::memcpy(to.back()->bytes().data(), content.data(), content.size());
    if (source == submit.host_input) result.host_input = to.back();
    if (source == submit.host_output) result.host_output = to.back();
  }
  const auto outputs = to.begin() + static_cast<ptrdiff_t>(submit.inputs.size());
  result.inputs.assign(to.begin(), outputs);
  result.outputs.assign(outputs, to.end());
  result.jobs = move_jobs(submit.jobs, from, to, *submit.chip, {});
  // Nothing reaches the NPU that was not read as it will be fetched.
  verify_streams(result);
  for (const auto& buffer : worker->copies) buffer->give_to_device();
  return result;
}

class RocketSubmission : public Submission {
 public:
  RocketSubmission(std::vector<std::shared_ptr<RocketFile>> files, const Submit& submit,
                   const VerifiedJobs& verified, const CorePlan& plan)
      : timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kRocketTimeoutMs),
        proof_(plan.only_mark()) {
    workers_.resize(plan.workers);
    std::vector<Submit> submits(plan.workers);
    for (size_t i = 0; i < plan.workers; ++i) {
      Worker& worker = workers_[i];
      worker.file = std::move(files[i]);
      submits[i] = i == 0 ? submit : mirrored(submit, &worker);
      for (Buffer* buffer : submits[i].inputs) worker.inputs.push_back(rocket_buffer(buffer));
      for (Buffer* buffer : submits[i].outputs) worker.outputs.push_back(rocket_buffer(buffer));
    }
    for (const PlannedEpoch& planned : plan.epochs) add_epoch(planned, submit, submits, verified);
    for (size_t i = 1; i < plan.workers; ++i) add_input(plan.host_input[i], i, submit);
    // Only the first worker's memory is the submit's.
    for (const JobRef& job : submit.jobs) {
      for (size_t t = 0; t < job.tasks.size(); ++t) {
        const bool is_first = job.core % plan.workers == 0;
        const size_t index = static_cast<size_t>(&job - submit.jobs.data());
        targets_.push_back(is_first ? verified[index][t].target : kNoTarget);
      }
    }
  }

  Span<const uint64_t> task_targets() const override { return targets_; }
  uint64_t proof() const override { return proof_; }

  void begin() override {
    workers_[0].file->file.require_mine("SUBMIT");
    for (const Epoch& epoch : epochs_) {
      for (const Launch& launch : epoch.launches) launch.job->wait_for_earlier(timeout_ms_);
    }
  }

  void run() override {
    for (const Copy& copy : input_copies_) {
      std::memcpy(copy.to.bytes(), copy.from.bytes(), copy.size);
    }
    for (RocketBuffer* buffer : input_buffers_) buffer->give_to_device();
    mark_.renew();
    int64_t waited_ns = 0;
    for (Epoch& epoch : epochs_) {
      for (const Launch& launch : epoch.launches) {
        for (const Mark& mark : launch.marks) {
          mark.place.buffer->hold(deadline());
          mark_.put(mark.place.bytes());
        }
      }
      for (const Launch& launch : epoch.launches) launch.job->submit(timeout_ms_);
      const int64_t start = monotonic_ns();
      for (const Launch& launch : epoch.launches) launch.job->wait(timeout_ms_);
      waited_ns += monotonic_ns() - start;
      for (const Launch& launch : epoch.launches) check_marks(launch);
      for (const Copy& copy : epoch.copies) {
        copy.from.buffer->hold(deadline());
        copy.to.buffer->hold(deadline());
        std::memcpy(copy.to.bytes(), copy.from.bytes(), copy.size);
      }
    }
    note_waited(waited_ns);
  }

 private:
  std::string name() const { return "rocket " + workers_[0].file->file.path(); }
  int64_t deadline() const { return monotonic_ns() + timeout_ms_ * kNsPerMs; }

  void add_epoch(const PlannedEpoch& planned, const Submit& submit,
                 const std::vector<Submit>& submits, const VerifiedJobs& verified) {
    Epoch& epoch = epochs_.emplace_back();
    for (size_t w = 0; w < workers_.size(); ++w) {
      if (planned.workers[w].empty()) continue;
      Launch& launch = epoch.launches.emplace_back();
      std::vector<RocketTask> tasks;
      for (const PlannedJob& job : planned.workers[w]) {
        const std::vector<TaskRef>& source = submits[w].jobs[job.job].tasks;
        const size_t end = job.first + job.count;
        for (size_t t = job.first; t < end; ++t) {
          tasks.push_back({source[t], verified[job.job][t]});
        }
        if (job.mark == kNoMark || job.mark == proof_) continue;
        launch.marks.push_back({place(submit, w, job.mark), source[end - 1].layer});
      }
      const Worker& worker = workers_[w];
      launch.job = std::make_unique<RocketJob>(worker.file, tasks, worker.inputs, worker.outputs);
    }
    for (const PlannedCopy& copy : planned.copies) {
      // Ranges of different buffers may touch.
      for (uint64_t begin = copy.range.begin; begin < copy.range.end;) {
        const Place from = place(submit, copy.from, begin);
        const size_t size =
            std::min<uint64_t>(copy.range.end - begin, from.buffer->bytes().size() - from.offset);
        epoch.copies.push_back({from, place(submit, copy.to, begin), size});
        begin += size;
      }
    }
  }

  void add_input(const std::vector<sim::AddressRange>& ranges, size_t worker,
                 const Submit& submit) {
    for (const sim::AddressRange& range : ranges) {
      input_copies_.push_back({place(submit, 0, range.begin), place(submit, worker, range.begin),
                               static_cast<size_t>(range.end - range.begin)});
    }
    if (!ranges.empty()) input_buffers_.push_back(input_copies_.back().to.buffer);
  }

  // Where a worker holds an address of the submit's.
  Place place(const Submit& submit, size_t worker, uint64_t address) const {
    const Worker& holder = workers_[worker];
    if (const auto at = find_address(submit.inputs, address)) {
      return {holder.inputs[at->index], at->offset};
    }
    const auto at = find_address(submit.outputs, address);
    if (!at) throw StreamError("a job leaves the buffers of its submit");
    return {holder.outputs[at->index], at->offset};
  }

  void check_marks(const Launch& launch) {
    for (const Mark& mark : launch.marks) {
      mark.place.buffer->hold(deadline());
      if (mark_.is_at(mark.place.bytes())) throw DeviceError(name() + ": " + unwritten(mark.layer));
    }
  }

  uint32_t timeout_ms_;
  uint64_t proof_;
  std::vector<Worker> workers_;
  std::vector<Epoch> epochs_;
  std::vector<Copy> input_copies_;
  std::vector<RocketBuffer*> input_buffers_;  // what they write
  std::vector<uint64_t> targets_;
  RunMark mark_;
};

}  // namespace

std::unique_ptr<Submission> make_rocket_submission(std::vector<std::shared_ptr<RocketFile>> files,
                                                   const Submit& submit,
                                                   const VerifiedJobs& verified,
                                                   const CorePlan& plan) {
  return std::make_unique<RocketSubmission>(std::move(files), submit, verified, plan);
}

}  // namespace rk3588
