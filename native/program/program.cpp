#include "program/program.h"

#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <unordered_set>

#include "digest.h"
#include "program/binding_check.h"
#include "program/flatbuffer_view.h"
#include "text.h"

namespace rk3588 {
namespace {

// Field ids of delegate/npu/program.fbs.
enum ProgramField : unsigned {
  kFormatVersion,
  kCompiler,
  kName,
  kBuffers,
  kRelocs,
  kLayers,
  kTasks,
  kInputs,
  kOutputs,
  kChecksum,
  kChip
};
enum BufferField : unsigned { kSize, kContent };
enum LayerField : unsigned { kLayerName, kLayerOp, kLayerNodes };
enum TaskField : unsigned {
  kRegcmdOffset,
  kRegcmdCount,
  kEnableMask,
  kIntMask,
  kLayer,
  kJob,
  kTile,
  kNpuCycles,
  kDdrCycles,
  kBytes,
  kForm
};
enum BindingField : unsigned {
  kTensor,
  kTensorName,
  kShape,
  kElement,
  kImages,
  kHeight,
  kWidth,
  kChannels,
  kSurfaces,
  kSurfaceStride,
  kImageStride,
  kBuffer,
  kOffset,
  kFill,
  kFold,  // the first of kFoldMembers
  kAffineScale = kFold + std::size(kFoldMembers),
  kAffineZeroPoint,
  kAffineElement,
  kTable,
  kIsSpread,
  kSpread  // the first of kSpreadMembers
};

constexpr char kFileIdentifier[] = "RKNP";
constexpr size_t kRelocBytes = 16;  // struct Reloc: uint32, uint32, uint64
constexpr size_t kRegcmdAlignment = 64;

// Limits of sanity, far above real programs (an RK3588 partition has some hundred tasks and some
// MiB).
constexpr uint64_t kMaxTotalBytes = uint64_t{3} << 30;  // device addresses have 32 bits
constexpr size_t kMaxTextBytes = size_t{16} << 20;  // all names together: tables may share a string
constexpr size_t kMaxTasks = size_t{1} << 20;
constexpr size_t kMaxBindings = 4096;
constexpr size_t kMaxRank = 8;
// PC.REGISTER_AMOUNTS holds (words + 1) / 2 - 1 in 16 bits.
constexpr uint32_t kMaxTaskWords = 131072;

// CRC-32 of the file with the 8 bytes of its checksum field taken as zero.
uint64_t checksum_of(Span<const uint8_t> bytes, size_t field) {
  static constexpr std::array<uint8_t, sizeof(uint64_t)> kZero{};
  const size_t behind = field + kZero.size();
  uint32_t crc = crc32(bytes.subspan(0, field), 0);
  crc = crc32(kZero, crc);
  return crc32(bytes.subspan(behind, bytes.size() - behind), crc);
}

std::string identity(uint64_t checksum, size_t size) {
  char text[48];
  std::snprintf(text, sizeof(text), "program-%08" PRIx64 "-%zx", checksum, size);
  return text;
}

class Reader {
 public:
  explicit Reader(Span<const uint8_t> bytes) : raw_(bytes), bytes_(bytes) {}

  Program read() {
    require(raw_.size() >= 8, "too short");
    if (std::memcmp(raw_.data() + 4, kFileIdentifier, 4) != 0) fail("no \"RKNP\" identifier");
    const FlatTable root(&bytes_, bytes_.follow(0));
    const uint32_t version = root.scalar<uint32_t>(kFormatVersion);
    if (version != kProgramFormatVersion) {
      fail("format version " + std::to_string(version) + ", this library reads " +
           std::to_string(kProgramFormatVersion));
    }
    const size_t checksum = root.field(kChecksum, sizeof(uint64_t));
    require(checksum != 0, "no checksum");
    if (checksum_of(raw_, checksum) != bytes_.load<uint64_t>(checksum)) fail("checksum mismatch");

    Program program;
    program.id = identity(bytes_.load<uint64_t>(checksum), raw_.size());
    program.chip = &chip_called(text(root.string(kChip)));
    program.compiler = text(root.string(kCompiler));
    program.name = text(root.string(kName));
    read_buffers(root, program);
    read_relocs(root, program);
    read_layers(root, program);
    read_tasks(root, program);
    read_bindings(root, kInputs, BufferId::kInput, program, program.inputs);
    read_bindings(root, kOutputs, BufferId::kOutput, program, program.outputs);
    require(!program.outputs.empty(), "no outputs");
    return program;
  }

 private:
  static const Chip& chip_called(const std::string& name) {
    for (const Chip* chip : kChips) {
      if (chip->name == name) return *chip;
    }
    fail("it is for chip \"" + name + "\", which this library does not know");
  }

  std::string text(std::string_view view) {
    text_bytes_ += view.size();
    require(text_bytes_ <= kMaxTextBytes, "names are too long");
    // Names end up in messages and in Python strings.
    require(is_utf8(view), "a name is not UTF-8");
    return std::string(view);
  }

  void read_buffers(const FlatTable& root, Program& program) {
    const FlatVector tables = root.tables(kBuffers);
    require(tables.size() == kBufferCount, "wrong number of buffers");
    uint64_t total = 0;
    for (size_t i = 0; i < kBufferCount; ++i) {
      const FlatTable table = root.table(tables, i);
      ProgramBuffer& buffer = program.buffers[i];
      buffer.size = table.scalar<uint64_t>(kSize);
      buffer.content = table.vector(kContent, 1, 1).bytes();
      require(buffer.size <= kMaxBufferBytes, "a buffer is larger than 1 GiB");
      require(buffer.content.size() <= buffer.size, "a buffer's content is larger than the buffer");
      const auto id = static_cast<BufferId>(i);
      require((id != BufferId::kScratch && id != BufferId::kOutput) || buffer.content.empty(),
              "a buffer that the device writes has content");
      total += buffer.size;
    }
    require(total <= kMaxTotalBytes, "the buffers exceed the device's address space");
    require(program.buffers[0].size % sizeof(uint64_t) == 0, "REGCMD is not whole 64-bit words");
  }

  void read_relocs(const FlatTable& root, Program& program) {
    const FlatVector relocs = root.vector(kRelocs, kRelocBytes, alignof(uint64_t));
    const uint64_t words = program.buffers[0].size / sizeof(uint64_t);
    program.relocs.reserve(relocs.size());
    for (size_t i = 0; i < relocs.size(); ++i) {
      const Reloc reloc{relocs.load<uint32_t>(i, 0), relocs.load<uint32_t>(i, 4),
                        relocs.load<uint64_t>(i, 8)};
      require(reloc.word < words, "a relocation lies outside REGCMD");
      require(i == 0 || program.relocs.back().word < reloc.word, "relocations are not sorted");
      require(reloc.buffer < kBufferCount, "a relocation names an unknown buffer");
      require(reloc.addend < program.buffers[reloc.buffer].size,
              "a relocation points outside its buffer");
      program.relocs.push_back(reloc);
    }
  }

  void read_layers(const FlatTable& root, Program& program) {
    const FlatVector layers = root.tables(kLayers);
    require(layers.size() <= kMaxTasks, "too many layers");
    for (size_t i = 0; i < layers.size(); ++i) {
      const FlatTable table = root.table(layers, i);
      table.string(kLayerOp);
      table.vector(kLayerNodes, sizeof(int32_t), alignof(int32_t));
      program.layers.push_back(text(table.string(kLayerName)));
    }
  }

  void read_tasks(const FlatTable& root, Program& program) {
    const FlatVector tasks = root.tables(kTasks);
    require(tasks.size() > 0, "no tasks");
    require(tasks.size() <= kMaxTasks, "too many tasks");
    const uint64_t regcmd_bytes = program.buffers[0].size;
    for (size_t i = 0; i < tasks.size(); ++i) {
      const FlatTable table = root.table(tasks, i);
      ProgramTask task;
      task.regcmd_offset = table.scalar<uint32_t>(kRegcmdOffset);
      task.regcmd_count = table.scalar<uint32_t>(kRegcmdCount);
      task.enable_mask = table.scalar<uint32_t>(kEnableMask);
      task.layer = table.scalar<uint32_t>(kLayer);
      task.job = table.scalar<uint32_t>(kJob);
      task.tile = text(table.string(kTile));
      require(task.regcmd_offset % kRegcmdAlignment == 0, "a task's commands are misaligned");
      require(task.regcmd_count > 0 && task.regcmd_count <= kMaxTaskWords,
              "a task's number of commands is out of range");
      require(uint64_t{task.regcmd_offset} + uint64_t{task.regcmd_count} * 8 <= regcmd_bytes,
              "a task's commands lie outside REGCMD");
      require(task.enable_mask != 0 && table.scalar<uint32_t>(kIntMask) != 0,
              "a task enables no unit");
      require(task.layer < program.layers.size(), "a task names an unknown layer");
      task.form = text(table.string(kForm));
      require(i == 0 || program.tasks.back().job <= task.job, "jobs are not ascending");
      program.tasks.push_back(std::move(task));
    }
  }

  void read_bindings(const FlatTable& root, unsigned field, BufferId buffer, const Program& program,
                     std::vector<Binding>& bindings) {
    const FlatVector tables = root.tables(field);
    require(tables.size() <= kMaxBindings, "too many tensors");
    std::unordered_set<int32_t> tensors;
    for (size_t i = 0; i < tables.size(); ++i) {
      Binding binding = read_binding(root.table(tables, i));
      const Box& box = binding.boxes.front();
      require(box.buffer == buffer, "a tensor is bound to a buffer of the wrong kind");
      check_extent(binding, box, program.buffers[static_cast<size_t>(buffer)].size);
      if (tensors.insert(binding.tensor).second) {
        bindings.push_back(std::move(binding));
        continue;
      }
      require(is_same_tensor(bindings.back(), binding), "a tensor is bound twice");
      bindings.back().boxes.push_back(box);
    }
    for (const Binding& binding : bindings) check_boxes(binding);
  }

  Binding read_binding(const FlatTable& table) {
    Binding binding;
    binding.tensor = table.scalar<int32_t>(kTensor);
    binding.name = text(table.string(kTensorName));
    const FlatVector shape = table.vector(kShape, sizeof(int32_t), alignof(int32_t));
    require(shape.size() <= kMaxRank, "a tensor has too many dimensions");
    for (size_t i = 0; i < shape.size(); ++i) binding.shape.push_back(shape.load<int32_t>(i));
    const auto element = table.scalar<uint8_t>(kElement);
    require(element < kElementCount, "a tensor has an unknown element type");
    binding.element = static_cast<Element>(element);
    binding.boxes.push_back(read_box(table));
    binding.affine = read_affine(table);
    const Span<const uint8_t> bytes = table.vector(kTable, 1, 1).bytes();
    binding.table.assign(bytes.data(), bytes.data() + bytes.size());
    check_values(binding);
    return binding;
  }

  static Box read_box(const FlatTable& table) {
    Box box;
    box.images = table.scalar<uint32_t>(kImages);
    box.height = table.scalar<uint32_t>(kHeight);
    box.width = table.scalar<uint32_t>(kWidth);
    box.channels = table.scalar<uint32_t>(kChannels);
    box.surfaces = table.scalar<uint32_t>(kSurfaces);
    box.surface_stride_bytes = table.scalar<uint64_t>(kSurfaceStride);
    box.image_stride_bytes = table.scalar<uint64_t>(kImageStride);
    const uint32_t buffer = table.scalar<uint32_t>(kBuffer);
    require(buffer < kBufferCount, "a tensor names an unknown buffer");
    box.buffer = static_cast<BufferId>(buffer);
    box.offset = table.scalar<uint64_t>(kOffset);
    box.fill = table.scalar<int8_t>(kFill);
    box.fold = read_fold(table);
    const auto is_spread = table.scalar<uint8_t>(kIsSpread);
    uint64_t all = 0;
    unsigned field = kSpread;
    for (const auto member : kSpreadMembers) {
      all |= box.spread.*member = table.scalar<uint64_t>(field++);
    }
    require(is_spread == 1 || (is_spread == 0 && all == 0), "a tensor has an impossible spread");
    box.is_spread = is_spread != 0;
    return box;
  }

  static Affine read_affine(const FlatTable& table) {
    Affine affine;
    affine.scale = table.scalar<float>(kAffineScale);
    affine.zero_point = table.scalar<int32_t>(kAffineZeroPoint);
    const auto element = table.scalar<uint8_t>(kAffineElement);
    require(element < kElementCount, "a tensor has an unknown element type");
    affine.element = static_cast<Element>(element);
    return affine;
  }

  static Fold read_fold(const FlatTable& table) {
    Fold fold;
    unsigned field = kFold;
    for (const auto member : kFoldMembers) fold.*member = table.scalar<uint32_t>(field++);
    return fold;
  }

  Span<const uint8_t> raw_;
  FlatBytes bytes_;
  size_t text_bytes_ = 0;
};

}  // namespace

Program read_program(Span<const uint8_t> bytes) {
  try {
    return Reader(bytes).read();
  } catch (const FlatbufferError& error) {
    fail(error.what());
  }
}

}  // namespace rk3588
