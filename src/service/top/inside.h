/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Internal to service/top: its state and what the views share. Rows are rebuilt from every snapshot (top_see) and point
 * into it; a selection is kept as a Thing, which identifies an object independent of its row. Vectors keep their
 * memory, so that a frame allocates nothing. One thread.
 */

#include "base/str.h"
#include "base/vec.h"
#include "engine/health/incidents.h"
#include "service/screen/grid.h"
#include "service/screen/plot.h"
#include "service/top/top.h"

enum {
    TOP_TEXT_CAP = 96,
    TOP_ZONES_MAX = 512,
    TOP_PLOTS_MAX = 8,     /* metrics that are plotted at once */
    TOP_POINTS_MAX = 1024, /* columns of a plot: two per cell */
    TOP_SAY_LOOKS = 8,     /* snapshots for which a message stays */
    TOP_SHEET_MAX = 65536,
};

/* --- lists ------------------------------------------------------------------------------------------------------ */

/* A scrolled list: the cursor and the first visible row. */
typedef struct List {
    size_t count, selected, first;
    size_t page; /* rows that were drawn last, at least 1 */
} List;

/* Arrows, pages, home and end; false for any other key. */
bool list_key(List *list, uint32_t key);
void list_move(List *list, long by);
/* Sets `first` so that the cursor is among `page` rows of one line each. */
void list_settle(List *list, size_t page);
/* "12-20 of 72" at the right of row y if not all are visible. */
void list_mark(const List *list, Grid *grid, Area area, int y);

/* --- things ----------------------------------------------------------------------------------------------------- */

typedef enum ThingKind {
    THING_NONE,
    THING_DEVICE,
    THING_PROCESS,
    THING_GROUP,
    THING_INCIDENT,
} ThingKind;

/* Identifies the object of a row. */
typedef struct Thing {
    ThingKind kind;
    Device device;                           /* of a device; the GPU of a process */
    uint32_t pid;                            /* of a process */
    uint64_t start_ns;                       /* the same */
    uint32_t gpu_instance, compute_instance; /* the same */
    char text[TOP_TEXT_CAP];                 /* an incident's id, a group's label */
} Thing;

bool thing_equal(const Thing *a, const Thing *b);

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* A GPU, or a MIG instance below it. */
typedef struct GpuRow {
    const NodeGpu *gpu;
    const Reading *reading;   /* the GPU's or the instance's */
    const Activity *activity; /* the same */
    bool instance, last;      /* last: of its GPU's instances */
    const Incident *incident; /* the worst open one of this GPU, NULL none */
    const char *wrong;        /* the worst thing that is wrong with it, NULL nothing */
    FaultSeverity severity;   /* of that */
} GpuRow;

typedef struct ProcessRow {
    bool group, last; /* last: of its group */
    uint8_t depth;
    const NodeGpu *gpu;
    const NodeProcess *process; /* NULL of a group */
    const ProcessOwner *owner;  /* NULL where it was not found */
    double cpu_percent;         /* NAN: not known */
    double sm_percent;          /* the same; a group's sum */
    double used_bytes;          /* the same */
    size_t members;             /* of a group */
    char label[TOP_TEXT_CAP];   /* of a group; of a process the group that it is in, "" none */
} ProcessRow;

typedef struct CpuSeen {
    uint32_t pid;
    uint64_t start_ns, cpu_ns;
    double percent; /* NAN before the second snapshot */
} CpuSeen;

typedef VEC(GpuRow) GpuRows;
typedef VEC(ProcessRow) ProcessRows;
typedef VEC(CpuSeen) CpuSeens;
typedef VEC(uint32_t) Order;

/* --- state ------------------------------------------------------------------------------------------------------ */

typedef enum ViewId { VIEW_GPUS, VIEW_GPU, VIEW_PROCESSES, VIEW_INCIDENTS, VIEW_TOPOLOGY, VIEW_END } ViewId;

typedef enum OverlayId {
    OVERLAY_NONE,
    OVERLAY_HELP,
    OVERLAY_SETUP,
    OVERLAY_SORT,
    OVERLAY_SIGNAL,
    OVERLAY_PROCESS,
    OVERLAY_INCIDENT,
    OVERLAY_END,
} OverlayId;

typedef enum PromptKind { PROMPT_NONE, PROMPT_SEARCH, PROMPT_FILTER } PromptKind;
typedef enum TreeKind { TREE_NONE, TREE_OWNER, TREE_GPU, TREE_END } TreeKind;
typedef enum TopSpan { SPAN_MINUTE, SPAN_TEN, SPAN_HOUR, SPAN_DAY, SPAN_END } TopSpan;

/* A clickable place. */
typedef enum ZoneKind { ZONE_KEY, ZONE_VIEW, ZONE_ROW, ZONE_SORT, ZONE_OVERLAY } ZoneKind;
typedef struct Zone {
    Area area;
    ZoneKind kind;
    uint32_t value;
} Zone;

typedef struct Top {
    bool read_only;
    char wanted[DEVICE_UUID_CAP]; /* --gpu, until the first snapshot resolves it */
    History *history;             /* NULL none */
    const Snapshot *snapshot;     /* without a node before the first one */
    const FeedState *feed;
    uint64_t real_ns; /* of the snapshot, wall clock */

    /* from the snapshot */
    VEC(const Incident *) incidents; /* the most urgent first */
    GpuRows gpus;
    ProcessRows processes, spare;
    Order order, order_spare;
    CpuSeens cpu, cpu_before;
    uint64_t cpu_real_ns;

    /* the user's place */
    ViewId view;
    ViewId back[8]; /* views that Escape leads back to */
    size_t back_count;
    List gpu_list, process_list, incident_list;        /* gpu_list: the devices, behind them the processes */
    Thing gpu_thing, process_thing, incident_selected; /* the selected objects; none: the first row */
    Thing followed;                                    /* the GPU or instance of the view `gpu` */
    bool touched;                                      /* the user has pressed or clicked something */
    List numbers;                                      /* its lines, and those of the topology */
    List matrix;

    /* how it is shown */
    size_t sort; /* a column of the processes */
    bool reverse;
    TreeKind tree;
    TopSpan span;
    PlotStyle plot_style;
    bool plotted[TOP_TEXT_CAP]; /* by number in the table of plots */
    bool compact, hide_processes;

    /* overlays */
    OverlayId overlay;
    List overlay_list;
    bool confirming; /* the signal is chosen */
    Thing target;    /* process of the signal and of its sheet; incident of its sheet */
    ProcessOwner target_owner;
    TopSignal signal;
    PromptKind prompt;
    char filter[TOP_TEXT_CAP], search[TOP_TEXT_CAP];
    double seek_s, speed;
    char said[256];
    Ink said_ink;
    unsigned said_left; /* snapshots for which it stays */
    Str sheet;

    Zone zones[TOP_ZONES_MAX];
    size_t zone_count;
    PlotPoint points[TOP_PLOTS_MAX][TOP_POINTS_MAX];
} Top;

/* --- shared pieces ---------------------------------------------------------------------------------------------- */

/* Cut rows or columns off an area and return them; no more than there are. */
Area area_top(Area *area, int rows);
Area area_bottom(Area *area, int rows);
Area area_left(Area *area, int columns);
Area area_row(Area area, int row);

/* A place that reacts to the mouse; beyond TOP_ZONES_MAX it does not. */
void top_zone(Top *top, Area area, ZoneKind kind, uint32_t value);

/* Text broken at blanks into the area from row y on, at most to its end, the later lines indented; returns the row
 * after it. */
int text_wrap(Grid *grid, Area area, int y, int indent, Ink ink, const char *text);
/* Whether `word` is in `text`, whatever the case of ASCII letters. */
bool text_has(const char *text, const char *word);
/* "12 s", "4 min", "3 h", "5 d" */
const char *text_age(uint64_t ns, char out[32]);
/* "-" of UTF-8 or ASCII: a dot between two phrases, an arrow, the tree's branches. */
const char *text_dot(const Grid *grid);
const char *text_arrow(const Grid *grid);
const char *text_branch(const Grid *grid, bool last);
Ink severity_ink(FaultSeverity severity);
Ink activity_ink(ActivityWord word);

/* rows.c, processes.c: build rows from the snapshot; put the cursor on the selected object. */
void rows_see(Top *top);
void processes_see(Top *top);
void processes_cpu(Top *top);
/* Whether a row holds this text (search and filter). */
bool gpu_row_has(const GpuRow *row, const char *word);
bool process_row_has(const ProcessRow *row, const char *word);
bool incident_has(const Incident *incident, const char *word);
/* The object of a row. */
Thing gpu_row_thing(const GpuRow *row);
Thing process_row_thing(const ProcessRow *row);
Thing incident_thing(const Incident *incident);
/* "pod ns/name", "job 4711", "docker 3f2a1b9c0d1e"; "" if unknown. */
const char *owner_label(const ProcessOwner *owner, char out[TOP_TEXT_CAP]);
/* The process under the cursor of this view, NULL none. */
const ProcessRow *top_process(const Top *top);
/* The row of the GPU or instance that is followed, else the first; NULL where there is none. */
const GpuRow *top_followed(const Top *top);
/* What an incident is about: "GPU 3", "the node". */
const char *incident_where(const Incident *incident, char out[TOP_TEXT_CAP]);
bool incident_is_on(const Incident *incident, const NodeGpu *gpu);

/* head.c: host, time and tabs; stale, paused, replayed; health. Removes the used rows from the area. */
void head_draw(Top *top, Grid *grid, Area *area);
/* incidents.c: an incident and what to do, in one line or in two, removed from the area. */
void incident_draw(Top *top, Grid *grid, Area *area, const Incident *incident);
/* keys.c */
void foot_draw(Top *top, Grid *grid, Area area);

/* gpus.c: a GPU as a block of lines. */
void gpu_block(Top *top, Grid *grid, Area area, const GpuRow *row);

/* processes.c: the table in an area, `list` its rows from `offset` on. */
void process_table_draw(Top *top, Grid *grid, Area area, List *list, size_t offset);
size_t process_column_count(void);
const char *process_column_key(size_t i);
bool process_column_down(size_t i); /* sorted from large to small */
int process_column_compare(size_t i, const ProcessRow *a, const ProcessRow *b);

/* plots.c: the table of what can be plotted. */
size_t plot_count(void);
const char *plot_title(size_t i);
bool plot_usual(size_t i);
void plots_draw(Top *top, Grid *grid, Area area, const GpuRow *row);
void plot_spark_of(Top *top, Grid *grid, Area area, const Reading *reading);

/* --- columns --- */

enum { COLUMNS_MAX = 32 };

typedef struct Column {
    const char *key, *title;
    int width, most;  /* least width, and the most it takes of what is left; most 0: not wider */
    uint8_t priority; /* 0 always; the higher the sooner it goes */
    bool right;       /* text and title end at its right edge */
} Column;

typedef struct Layout {
    int x[COLUMNS_MAX], width[COLUMNS_MAX]; /* width 0: not shown */
} Layout;

/* `columns` are `count` structs of `stride` bytes, each beginning with a Column; one blank lies between two. */
void layout_fit(const void *columns, size_t stride, size_t count, int width, Layout *ret);
Area layout_cell(const Layout *layout, Area row, size_t i);
/* Text within a cell: to the left, or to the right edge. */
void column_text(Grid *grid, Area cell, bool right, Ink ink, const char *text);

/* --- views and overlays as tables --- */

typedef struct View {
    const char *name, *title, *brief; /* for options; of its tab; the same where there is little room */
    const char *about;                /* for the help */
    size_t list;                      /* offset of the List in Top that the arrows move */
    void (*moved)(Top *top); /* called when the cursor has moved: remembers the selected object; NULL nothing to do */
    bool (*row_has)(const Top *top, size_t row, const char *word); /* search; NULL cannot be searched */
    void (*enter)(Top *top);                                       /* drills down; NULL nothing to open */
    void (*draw)(Top *top, Grid *grid, Area area);
} View;

extern const View top_views[VIEW_END];
/* The list that the arrows move now. */
List *top_list(Top *top);
/* To another view, which Escape leaves again. */
void top_go(Top *top, ViewId view);
void top_follow(Top *top, const Device *device);

typedef struct Overlay {
    void (*draw)(Top *top, Grid *grid, Area area); /* within a frame that is drawn already */
    TopWish (*key)(Top *top, uint32_t key);        /* every key but Escape, which closes it */
    const char *title;
    int width, height; /* wanted inside; 0: all there is */
} Overlay;

extern const Overlay top_overlays[OVERLAY_END];
void top_open(Top *top, OverlayId overlay);

void view_gpus_draw(Top *top, Grid *grid, Area area);
void view_gpu_draw(Top *top, Grid *grid, Area area);
void view_processes_draw(Top *top, Grid *grid, Area area);
void view_incidents_draw(Top *top, Grid *grid, Area area);
void view_topology_draw(Top *top, Grid *grid, Area area);

void overlay_help_draw(Top *top, Grid *grid, Area area);
void overlay_setup_draw(Top *top, Grid *grid, Area area);
TopWish overlay_setup_key(Top *top, uint32_t key);
void overlay_sort_draw(Top *top, Grid *grid, Area area);
TopWish overlay_sort_key(Top *top, uint32_t key);
void overlay_signal_draw(Top *top, Grid *grid, Area area);
TopWish overlay_signal_key(Top *top, uint32_t key);
/* Opens the dialog for the process under the cursor, or says why not. */
void overlay_signal_open(Top *top);
void overlay_process_draw(Top *top, Grid *grid, Area area);
void overlay_incident_draw(Top *top, Grid *grid, Area area);
TopWish overlay_scroll_key(Top *top, uint32_t key);

/* Keys as a table: dispatch, the foot and the help come from the same rows. */
typedef struct KeyRow {
    uint32_t keys[4];  /* 0 ends */
    const char *label; /* as the help names them */
    const char *foot;  /* its word in the foot, NULL: not there */
    unsigned views;    /* bit per ViewId */
    TopWish (*run)(Top *top, uint32_t key, int value);
    int value; /* for run */
    const char *help;
} KeyRow;

extern const KeyRow top_keys[];
extern const size_t top_key_count;
TopWish keys_run(Top *top, uint32_t key);
/* Of an open prompt. */
TopWish prompt_key(Top *top, uint32_t key);

/* "LOST for 12 min": of a GPU that is not up. */
const char *gpu_down(const Top *top, const NodeGpu *gpu, char out[TOP_TEXT_CAP * 2]);
/* The pods or jobs that have the device, "" unknown. */
const char *gpu_owner(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP]);
/* "1g.10gb 7/0" */
const char *instance_name(const Reading *reading, char out[TOP_TEXT_CAP]);
