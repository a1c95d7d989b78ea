/* A program that uses TensorFlow Lite's C API and the delegate as C services do (benchmark_model,
 * nnstreamer): TfLiteExternalDelegateCreate, no Python anywhere.
 *
 *   c_host LIBRARY MODEL INPUT OUTPUT [key=value ...]   runs once; a report in JSON on stdout
 *   c_host --threads N LIBRARY MODEL INPUT OUTPUT [...]  N threads, one delegate, own interpreters
 *   c_host --batch LIBRARY LIST INPUT [...]              every model of LIST: its outputs' checksum
 *   c_host --at-once LIBRARY MODEL INPUT [...]           the checksum, and exit with all of it open
 *
 * INPUT: the bytes of all input tensors one after the other ("-": zeros); OUTPUT: those of all
 * outputs. LIBRARY "-": no delegate. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/lite/c/c_api.h"

/* external_delegate.h of this version compiles only as C++. */
#define MAX_OPTIONS 256
typedef struct TfLiteExternalDelegateOptions {
  const char* lib_path;
  int count;
  const char* keys[MAX_OPTIONS];
  const char* values[MAX_OPTIONS];
  TfLiteStatus (*insert)(struct TfLiteExternalDelegateOptions*, const char*, const char*);
} TfLiteExternalDelegateOptions;
TfLiteExternalDelegateOptions TfLiteExternalDelegateOptionsDefault(const char* lib_path);
TfLiteDelegate* TfLiteExternalDelegateCreate(const TfLiteExternalDelegateOptions* options);
void TfLiteExternalDelegateDelete(TfLiteDelegate* delegate);

#define MAX_THREADS 16
#define REPETITIONS 8

static double now_ms(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char* content = malloc(*size + 1);
  *size = fread(content, 1, *size, file);
  content[*size] = 0;
  fclose(file);
  return content;
}

static int is_mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    if (strstr(line, name) != NULL) found = 1;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static long status_kb(const char* key) {
  char line[256];
  long value = -1;
  FILE* status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) value = atol(line + strlen(key));
  }
  if (status != NULL) fclose(status);
  return value;
}

static TfLiteDelegate* load_delegate(const char* library, char** pairs, int count) {
  if (strcmp(library, "-") == 0) return NULL;
  TfLiteExternalDelegateOptions options = TfLiteExternalDelegateOptionsDefault(library);
  for (int i = 0; i < count; ++i) {
    char* equals = strchr(pairs[i], '=');
    if (equals == NULL) continue;
    *equals = 0;
    options.insert(&options, pairs[i], equals + 1);
  }
  return TfLiteExternalDelegateCreate(&options);
}

static TfLiteInterpreter* make_interpreter(const TfLiteModel* model, TfLiteDelegate* delegate) {
  TfLiteInterpreterOptions* options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetNumThreads(options, 1);
  if (delegate != NULL) TfLiteInterpreterOptionsAddDelegate(options, delegate);
  TfLiteInterpreter* interpreter = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  if (interpreter != NULL && TfLiteInterpreterAllocateTensors(interpreter) != kTfLiteOk) {
    TfLiteInterpreterDelete(interpreter);
    interpreter = NULL;
  }
  return interpreter;
}

/* Returns 0 if the input's size is not the model's or invoking fails. */
static int run(TfLiteInterpreter* interpreter, const char* input, size_t input_bytes) {
  size_t offset = 0;
  for (int i = 0; i < TfLiteInterpreterGetInputTensorCount(interpreter); ++i) {
    TfLiteTensor* tensor = TfLiteInterpreterGetInputTensor(interpreter, i);
    const size_t bytes = TfLiteTensorByteSize(tensor);
    if (TfLiteTensorData(tensor) == NULL) return 0;
    if (input == NULL) {
      memset(TfLiteTensorData(tensor), 0, bytes);
    } else {
      if (offset + bytes > input_bytes) return 0;
      memcpy(TfLiteTensorData(tensor), input + offset, bytes);
    }
    offset += bytes;
  }
  return TfLiteInterpreterInvoke(interpreter) == kTfLiteOk;
}

static int write_outputs(TfLiteInterpreter* interpreter, const char* path) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return 0;
  for (int i = 0; i < TfLiteInterpreterGetOutputTensorCount(interpreter); ++i) {
    const TfLiteTensor* tensor = TfLiteInterpreterGetOutputTensor(interpreter, i);
    fwrite(TfLiteTensorData(tensor), 1, TfLiteTensorByteSize(tensor), file);
  }
  return fclose(file) == 0;
}

static uint64_t checksum(TfLiteInterpreter* interpreter) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (int i = 0; i < TfLiteInterpreterGetOutputTensorCount(interpreter); ++i) {
    const TfLiteTensor* tensor = TfLiteInterpreterGetOutputTensor(interpreter, i);
    const unsigned char* bytes = TfLiteTensorData(tensor);
    for (size_t k = 0; bytes != NULL && k < TfLiteTensorByteSize(tensor); ++k) {
      hash = (hash ^ bytes[k]) * 1099511628211u;
    }
  }
  return hash;
}

static int run_once(char** arguments, int count) {
  size_t input_bytes = 0;
  char* input = strcmp(arguments[2], "-") == 0 ? NULL : read_file(arguments[2], &input_bytes);
  const double start = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
  TfLiteDelegate* delegate = load_delegate(arguments[0], arguments + 4, count - 4);
  TfLiteModel* model = TfLiteModelCreateFromFile(arguments[1]);
  TfLiteInterpreter* interpreter = model == NULL ? NULL : make_interpreter(model, delegate);
  const int ok = interpreter != NULL && run(interpreter, input, input_bytes);
  const double first_ms = now_ms(CLOCK_MONOTONIC) - start;
  const double cpu_ms = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  if (ok && !write_outputs(interpreter, arguments[3])) return 3;
  const long resident = status_kb("VmRSS:"), anonymous = status_kb("RssAnon:");
  printf(
      "{\"ok\": %s, \"first_inference_ms\": %.3f, \"cpu_ms\": %.3f, \"resident_kb\": %ld, "
      "\"anonymous_kb\": %ld, \"libpython\": %s}\n",
      ok ? "true" : "false", first_ms, cpu_ms, resident, anonymous,
      is_mapped("libpython") ? "true" : "false");
  if (interpreter != NULL) TfLiteInterpreterDelete(interpreter);
  if (delegate != NULL) TfLiteExternalDelegateDelete(delegate);
  if (model != NULL) TfLiteModelDelete(model);
  free(input);
  return ok ? 0 : 1;
}

struct thread_arguments {
  const TfLiteModel* model;
  TfLiteDelegate* delegate;
  const char* input;
  size_t input_bytes;
  uint64_t checksum;
  int ok;
};

static void* run_thread(void* pointer) {
  struct thread_arguments* arguments = pointer;
  TfLiteInterpreter* interpreter = make_interpreter(arguments->model, arguments->delegate);
  arguments->ok = interpreter != NULL;
  for (int i = 0; arguments->ok && i < REPETITIONS; ++i) {
    arguments->ok = run(interpreter, arguments->input, arguments->input_bytes);
    const uint64_t sum = arguments->ok ? checksum(interpreter) : 0;
    if (i > 0 && sum != arguments->checksum) arguments->ok = 0;
    arguments->checksum = sum;
  }
  if (interpreter != NULL) TfLiteInterpreterDelete(interpreter);
  return NULL;
}

static int run_threads(int threads, char** arguments, int count) {
  size_t input_bytes = 0;
  char* input = strcmp(arguments[2], "-") == 0 ? NULL : read_file(arguments[2], &input_bytes);
  TfLiteDelegate* delegate = load_delegate(arguments[0], arguments + 4, count - 4);
  TfLiteModel* model = TfLiteModelCreateFromFile(arguments[1]);
  if (model == NULL || threads < 1 || threads > MAX_THREADS) return 2;
  pthread_t handles[MAX_THREADS];
  struct thread_arguments each[MAX_THREADS];
  for (int i = 0; i < threads; ++i) {
    each[i] = (struct thread_arguments){model, delegate, input, input_bytes, 0, 0};
    pthread_create(&handles[i], NULL, run_thread, &each[i]);
  }
  int ok = 1;
  for (int i = 0; i < threads; ++i) {
    pthread_join(handles[i], NULL);
    if (!each[i].ok || each[i].checksum != each[0].checksum) ok = 0;
  }
  printf("{\"ok\": %s, \"checksum\": \"%016llx\"}\n", ok ? "true" : "false",
         (unsigned long long)each[0].checksum);
  if (delegate != NULL) TfLiteExternalDelegateDelete(delegate);
  TfLiteModelDelete(model);
  free(input);
  return ok ? 0 : 1;
}

static int run_batch(char** arguments, int count) {
  size_t input_bytes = 0;
  char* input = strcmp(arguments[2], "-") == 0 ? NULL : read_file(arguments[2], &input_bytes);
  TfLiteDelegate* delegate = load_delegate(arguments[0], arguments + 3, count - 3);
  char path[4096];
  FILE* list = fopen(arguments[1], "r");
  if (list == NULL) return 2;
  while (fgets(path, sizeof(path), list) != NULL) {
    path[strcspn(path, "\n")] = 0;
    TfLiteModel* model = TfLiteModelCreateFromFile(path);
    TfLiteInterpreter* interpreter = model == NULL ? NULL : make_interpreter(model, delegate);
    if (interpreter != NULL && run(interpreter, input, input_bytes)) {
      printf("%s %016llx\n", path, (unsigned long long)checksum(interpreter));
    } else {
      printf("%s rejected\n", path);
    }
    fflush(stdout);
    if (interpreter != NULL) TfLiteInterpreterDelete(interpreter);
    if (model != NULL) TfLiteModelDelete(model);
  }
  fclose(list);
  if (delegate != NULL) TfLiteExternalDelegateDelete(delegate);
  free(input);
  return 0;
}

/* Ends the process as programs do that leave cleaning up to the system. */
static int run_and_exit(char** arguments, int count) {
  size_t input_bytes = 0;
  char* input = strcmp(arguments[2], "-") == 0 ? NULL : read_file(arguments[2], &input_bytes);
  TfLiteDelegate* delegate = load_delegate(arguments[0], arguments + 3, count - 3);
  TfLiteModel* model = TfLiteModelCreateFromFile(arguments[1]);
  TfLiteInterpreter* interpreter = model == NULL ? NULL : make_interpreter(model, delegate);
  if (interpreter == NULL || !run(interpreter, input, input_bytes)) exit(1);
  printf("%016llx\n", (unsigned long long)checksum(interpreter));
  exit(0);
}

int main(int argc, char** argv) {
  if (argc >= 7 && strcmp(argv[1], "--threads") == 0) {
    return run_threads(atoi(argv[2]), argv + 3, argc - 3);
  }
  if (argc >= 5 && strcmp(argv[1], "--batch") == 0) return run_batch(argv + 2, argc - 2);
  if (argc >= 5 && strcmp(argv[1], "--at-once") == 0) return run_and_exit(argv + 2, argc - 2);
  if (argc >= 5) return run_once(argv + 1, argc - 1);
  fprintf(stderr, "usage: c_host [--threads N | --batch | --at-once] LIBRARY MODEL|LIST INPUT [OUTPUT]\n");
  return 2;
}
