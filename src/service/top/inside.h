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
#include "service/top/top.h"

enum {
    TOP_TEXT_CAP = 96,
    TOP_ZONES_MAX = 512,
    TOP_PLOTS_MAX = 16,    /* in the table of plots */
    TOP_POINTS_MAX = 1024, /* columns of a plot: two per cell */
    TOP_SAY_LOOKS = 8,     /* snapshots for which a message stays */
    TOP_SHEET_MAX = 65536,
};

/* --- lists ------------------------------------------------------------------------------------------------------ */

typedef enum ThingKind { THING_NONE, THING_DEVICE, THING_PROCESS, THING_GROUP, THING_INCIDENT } ThingKind;

/* Identifies the object of a row. */
typedef struct Thing {
    ThingKind kind;
    Device device;                           /* of a device; the GPU of a process */
    uint32_t pid;                            /* of a process */
    uint64_t start_ns;                       /* the same */
    uint32_t gpu_instance, compute_instance; /* the same */
    char text[TOP_TEXT_CAP];                 /* an incident's id, a group's label */
} Thing;

/* A scrolled list: the cursor and the first visible row. */
typedef struct List {
    size_t count, selected, first;
    size_t page;  /* rows that were drawn last, at least 1 */
    bool blurred; /* the cursor is not shown: it is in another list */
    Thing thing;  /* what the cursor stays on; none: on its row */
} List;

/* Arrows, pages, home and end; false for any other key. */
bool list_key(List *list, uint32_t key);
void list_move(List *list, long by);
/* Sets `first` so that the cursor is among `page` rows of one line each. */
void list_settle(List *list, int page);
/* "12-20/72" at the right of the area's first row if not all are visible. */
void list_mark(const List *list, Grid *grid, Area area);

/* --- rows ------------------------------------------------------------------------------------------------------- */

/* A GPU, or a MIG instance below it. */
typedef struct GpuRow {
    const NodeGpu *gpu;
    const Reading *reading;            /* the GPU's or the instance's */
    const Activity *activity;          /* the same */
    bool instance, last;               /* last: of its GPU's instances */
    const Incident *incident;          /* the worst open one of this GPU, NULL none */
    FaultSeverity severity;            /* of that; a program's fault does not mark its GPU */
    FaultSeverity by_cause[CAUSE_END]; /* the same, of the worst with this cause */
} GpuRow;

/* A process, or a group of them: a job, pod, container or user. */
typedef struct ProcessRow {
    bool group, last;   /* last: of its group */
    const NodeGpu *gpu; /* of a group as the next two: of its first process */
    const NodeProcess *process;
    const ProcessOwner *owner; /* NULL where it was not found */
    double cpu_percent;        /* NAN: not known */
    double util_percent;       /* its share of the GPU's utilisation, the same; a group's mean over its GPUs */
    double used_bytes;         /* the same; a group's sum */
    double rss_bytes;          /* the same */
    uint64_t start_ns;         /* after boot, 0 not known; a group's earliest */
    size_t first, members;     /* of a group */
    uint64_t gpus;             /* a bit per GPU of the node, in its order */
    char label[TOP_TEXT_CAP];  /* of a group; of a process the group that it is in, "" none */
} ProcessRow;

typedef VEC(GpuRow) GpuRows;
typedef VEC(ProcessRow) ProcessRows;

/* --- state ------------------------------------------------------------------------------------------------------ */

typedef enum ViewId { VIEW_GPUS, VIEW_GPU, VIEW_PROCESSES, VIEW_INCIDENTS, VIEW_TOPOLOGY, VIEW_END } ViewId;

typedef enum OverlayId {
    OVERLAY_NONE,
    OVERLAY_HELP,
    OVERLAY_SETUP,
    OVERLAY_SIGNAL,
    OVERLAY_CONFIRM,
    OVERLAY_PROCESS,
    OVERLAY_INCIDENT,
    OVERLAY_END,
} OverlayId;

typedef enum TopSpan { SPAN_MINUTE, SPAN_TEN, SPAN_HOUR, SPAN_DAY, SPAN_END } TopSpan;

/* A clickable place. */
typedef enum ZoneKind { ZONE_KEY, ZONE_ROW, ZONE_SORT } ZoneKind;
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
    ProcessRows processes; /* with their groups where it is a tree */
    ProcessRows jobs;      /* the groups alone; of one process, the process */
    ProcessRows spare;     /* before they are grouped */
    VEC(double) cpu;       /* percent, of each of the snapshot's processes; NAN before the second snapshot */

    /* the user's place */
    ViewId view;
    ViewId back;                                /* the view that Escape leads back to */
    List gpu_list, process_list, incident_list; /* gpu_list: the devices, behind them the processes or jobs */
    size_t jobs_first;                          /* the first visible one of these */
    Thing followed;                             /* the GPU or instance of the view `gpu` */
    bool touched;                               /* the user has pressed or clicked something */
    List numbers;                               /* its lines, and those of the topology */
    List matrix;

    /* how it is shown */
    Theme theme;
    size_t sort; /* a column of the processes */
    bool reverse;
    bool tree; /* of the processes, by their owners */
    TopSpan span;
    bool plotted[TOP_PLOTS_MAX]; /* by number in the table of plots */
    bool dots, list_processes;
    bool owners_shown; /* the lines of the GPUs have a column with their owners */
    bool labels_shown; /* those of the processes one with their jobs */

    /* overlays */
    OverlayId overlay;
    List overlay_list;
    Thing target; /* process of the signal and of its sheet; incident of its sheet */
    ProcessOwner target_owner;
    TopSignal signal;
    bool prompt; /* the filter is being typed */
    char filter[TOP_TEXT_CAP];
    TopWish wish;  /* of the last key or click */
    double amount; /* of a seek or a speed */
    char said[256];
    Ink said_ink;
    unsigned said_left; /* snapshots for which it stays */
    Str sheet;

    Zone zones[TOP_ZONES_MAX];
    size_t zone_count;
    PlotPoint points[2][TOP_POINTS_MAX];
} Top;

/* --- areas and texts -------------------------------------------------------------------------------------------- */

/* Cut rows or columns off an area and return them; no more than there are. */
Area area_top(Area *area, int rows);
Area area_bottom(Area *area, int rows);
Area area_left(Area *area, int columns);
Area area_row(Area area, int row);

/* Whether a panel is drawn: where the screen holds these lines with all frames, or has many. */
bool panel_fits(const Grid *grid, Area area, int lines);
enum { PANEL_EDGES = 2, PANEL_MANY = 40 };
/* A frame with a title; returns what is inside. */
Area panel_open(Grid *grid, Area area, const char *title);

/* A place that reacts to the mouse; beyond TOP_ZONES_MAX it does not. */
void top_zone(Top *top, Area area, ZoneKind kind, uint32_t value);

/* Text broken at blanks into the area from row y on; its last row is cut as grid_text does it. Returns the row after
 * it. */
int text_wrap(Grid *grid, Area area, int y, Ink ink, const char *text);
/* Before a row of a tree. */
const char *text_branch(bool last);
/* A word in reverse at the left of a line; returns the column after it. */
int text_badge(Grid *grid, Area line, Ink ink, const char *text);
Ink severity_ink(FaultSeverity severity);
Ink activity_ink(ActivityWord word);

/* Lines that fill an area column by column and are scrolled. */
typedef struct Pen {
    Area area;          /* with the width of one column */
    int across, x, y;   /* columns, and the place of the next line */
    size_t first, line; /* lines above `first` are scrolled away */
} Pen;

/* Begins with the list's cursor, which stays above the last page. */
Pen pen_begin(List *list, Area area, int across);
/* The place of the next line, of height 0 if it is not visible. A blank one is left out at the head of a column. */
Area pen_line(Pen *pen, bool blank);
/* A title, behind a blank line. */
void pen_title(Pen *pen, Grid *grid, const char *title);
/* Tells the list how many lines there were. */
void pen_end(const Pen *pen, List *list);

/* --- tables ----------------------------------------------------------------------------------------------------- */

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

/* `columns` are structs of `stride` bytes, each beginning with a Column; one blank lies between two. `cell` draws one
 * cell that is visible, of what `row` points to. */
typedef struct Table {
    const void *columns;
    size_t stride, count;
    void (*cell)(Top *top, Grid *grid, Area cell, size_t column, const void *row);
} Table;

/* What the rows want of their columns now. */
typedef struct Fit {
    int last;        /* columns that the last one has before others that are less important; 0: its own width */
    uint32_t hidden; /* bit per column: not shown, as no row has a value for it */
} Fit;

void columns_fit(const Table *table, int width, Fit fit, Layout *ret);
void columns_head(const Table *table, const Layout *layout, Grid *grid, Area line);
void columns_row(const Table *table, const Layout *layout, Top *top, Grid *grid, Area line, const void *row);
Area layout_cell(const Layout *layout, Area row, size_t i);
/* Text within a cell: to the left, or to the right edge. */
void column_text(Grid *grid, Area cell, bool right, Ink ink, const char *text);

/* The visible rows of a list, a line each, the cursor among them: `draw` draws row `i`; the cursor's is reversed, or
 * its first `mark` columns (0: all). Rows react to the mouse as `offset` + i. */
typedef void RowDraw(Top *top, Grid *grid, Area line, size_t i, const void *context);
void list_draw(Top *top, List *list, Grid *grid, Area area, size_t offset, int mark, RowDraw *draw,
               const void *context);

/* --- views, overlays, keys -------------------------------------------------------------------------------------- */

typedef struct View {
    const char *name, *title, *brief; /* for options; of its tab; the same where there is little room */
    const char *about;                /* for the help */
    size_t list;                      /* offset of the List in Top that the arrows move */
    void (*draw)(Top *top, Grid *grid, Area area);
} View;

extern const View top_views[VIEW_END];
/* The list that the arrows move now. */
List *top_list(Top *top);
/* Remembers what the cursor of a view is on. */
void top_moved(Top *top, ViewId view);
/* The process under the cursor, NULL none. */
const ProcessRow *top_process(const Top *top);
/* The rows of a view's table of processes: of the GPUs' the groups where it is a tree. */
const ProcessRows *top_processes(const Top *top, ViewId view);
/* Counts the rows of all lists and puts their cursors on their objects, or remembers what is there now. */
void top_find_things(Top *top);
/* Sorts and filters the processes anew; the cursors stay on their objects. */
void top_order(Top *top);
/* Drills down: to the GPU, or to the sheet of the process or incident under the cursor. */
void top_enter(Top *top);
/* To another view, which Escape leaves again. */
void top_go(Top *top, ViewId view);
void top_follow(Top *top, const Device *device);
void top_open(Top *top, OverlayId overlay);

void view_gpus_draw(Top *top, Grid *grid, Area area);
void view_gpu_draw(Top *top, Grid *grid, Area area);
void view_processes_draw(Top *top, Grid *grid, Area area);
void view_incidents_draw(Top *top, Grid *grid, Area area);
void view_topology_draw(Top *top, Grid *grid, Area area);

void overlay_draw(Top *top, Grid *grid);
void overlay_key(Top *top, uint32_t key);
void overlay_process_draw(Top *top, Grid *grid, Area area);
void overlay_incident_draw(Top *top, Grid *grid, Area area);

/* Keys as a table: dispatch, the foot and the help come from the same rows. */
typedef struct KeyRow {
    uint32_t keys[6];  /* 0 ends */
    const char *label; /* as the help names them */
    const char *foot;  /* its word in the foot, NULL: not there */
    unsigned views;    /* bit per ViewId */
    void (*run)(Top *top, uint32_t key, int value);
    int value; /* for run */
    const char *help;
} KeyRow;

extern const KeyRow top_keys[];
extern const size_t top_key_count;
void keys_run(Top *top, uint32_t key);
/* Of the open prompt of the filter. */
void prompt_key(Top *top, uint32_t key);
void foot_draw(Top *top, Grid *grid, Area area);

/* --- pieces of views -------------------------------------------------------------------------------------------- */

/* head.c: host, time and tabs; stale, paused, replayed; health. Removes the used rows from the area. */
void head_draw(Top *top, Grid *grid, Area *area);

/* incidents.c */
void incidents_see(Top *top);
Thing incident_thing(const Incident *incident);
/* How many of the incidents are problems; these are the first ones. */
size_t incidents_wrong(const Top *top);
/* An incident and what to do, in one line or in two, removed from the area. */
void incident_draw(Top *top, Grid *grid, Area *area, const Incident *incident);

/* gpus.c */
void gpus_see(Top *top);
/* Of a reading that faults of this cause show in: the ink of the worst problem of that cause, else `fine`. */
Ink gpu_cause_ink(const GpuRow *row, FaultCause cause, Ink fine);
/* The row of the GPU or instance that is followed, else the first; NULL where there is none. */
const GpuRow *top_followed(const Top *top);
/* "LOST for 12 min": of a GPU that is not up; returns the column after it. */
int gpu_draw_down(const Top *top, Grid *grid, Area line, int x, const NodeGpu *gpu);
/* Why it is not up. */
const char *gpu_why(const NodeGpu *gpu);
/* The pods or jobs that have the device, "" unknown. */
const char *gpu_owner(const Top *top, const GpuRow *row, char out[TOP_TEXT_CAP]);
/* "1g.10gb 7/0" */
const char *instance_name(const Reading *reading, char out[TOP_TEXT_CAP]);
/* The instances of a GPU, as the table of GPUs has them. */
void gpu_draw_instances(Top *top, Grid *grid, Area area, const GpuRow *row);

/* processes.c */
void processes_see(Top *top);
void processes_cpu(Top *top, const Snapshot *next);
Thing process_row_thing(const ProcessRow *row);
/* "pod ns/name", "job 4711", "docker 3f2a1b9c0d1e"; "" if unknown. */
const char *owner_label(const ProcessOwner *owner, char out[TOP_TEXT_CAP]);
/* The command line, or the kernel's name. */
const char *owner_command(const ProcessOwner *owner);
/* The processes on a device, as the table has them. */
void process_lines_draw(Top *top, Grid *grid, Area area, const GpuRow *row);
/* The table in an area, `list` its rows, which react to the mouse from `offset` on. */
void process_table_draw(Top *top, Grid *grid, Area area, List *list, size_t offset, const ProcessRows *rows);

/* How the number of a column is shown; a column without one shows a text. */
typedef enum CellFormat { CELL_TEXT, CELL_WHOLE, CELL_PERCENT, CELL_BYTES } CellFormat;

typedef struct ProcessColumn {
    Column column;
    char letter; /* the key that sorts by it, 0 none */
    bool down;   /* sorted from large to small */
    CellFormat format;
} ProcessColumn;

extern const ProcessColumn process_columns[];
extern const size_t process_column_count;
int process_column_compare(size_t i, const ProcessRow *a, const ProcessRow *b);

/* topology.c: GPUs and network adapters, and how two of them are joined. */
enum { JOINED_MAX = NODE_GPUS_MAX + PLACE_ADAPTERS_MAX, JOINED_TEXT_CAP = 16 };

/* A GPU or a network adapter. */
typedef struct Joined {
    const NodeGpu *gpu; /* NULL: an adapter */
    const Place *place; /* NULL: not known */
    uint32_t number;    /* "GPU3", "NIC0"; DEVICE_NO_NUMBER: the driver has no index for it */
} Joined;

typedef struct JoinedList {
    size_t len;
    Joined at[JOINED_MAX];
} JoinedList;

/* GPUs in the node's order, then adapters. Borrows from the snapshot. */
void joined_find(const Snapshot *snapshot, JoinedList *ret);

/* "GPU3", "NIC0", "GPU?". Returns out. */
const char *joined_name(const Joined *one, char out[JOINED_TEXT_CAP]);

/*
 * How they are joined: "NV18"; "NV" by NVLink with an unknown number of links; "off" if NVLink is switched off; else
 * the path over PCIe ("PIX" ... "SYS"), "no" where only the lack of NVLink is known, "?" where nothing is; "down" with
 * a GPU that is not up. Returns out.
 */
const char *joined_pair(const Node *node, const Joined *a, const Joined *b, char out[JOINED_TEXT_CAP], Ink *ink);

/* The adapter that is nearest to a GPU, no further than its own host bridge; NULL if there is none or it is unknown.
 * *ret_more is how many others are as near. */
const Joined *joined_nearest(const JoinedList *list, const Joined *gpu, size_t *ret_more);

/* value.c: readings formatted for people: units, shares and words. Limits are the device's own. Absent is "-" and NAN,
 * never 0. Pure. */
enum { VALUE_CAP = 64 };

/* The value in its base unit (bytes, hertz, ratio, ...), NAN where absent. */
double value_base(const Reading *reading, MetricId id);
/* With its unit: "71.2 GiB", "97 %", "1980 MHz", "yes"; "-" where absent. */
char *value_text(char out[VALUE_CAP], MetricId id, const Sample *sample);
/* "97%", "-" */
char *value_percent(char out[VALUE_CAP], double share);
/* Of a column; "-" where absent. */
typedef char *ValueText(char out[VALUE_CAP], const Reading *reading);
/* "71/80 GiB", "643/700 W", "63/87°C": value and limit; without an unknown limit. */
ValueText value_memory, value_power, value_temp;
ValueText value_clock;              /* "1980": MHz of the SMs */
ValueText value_pcie, value_nvlink; /* "1.2/0.3", "210": GB/s received and sent, both ways */
/* "ok", "2 uncorrected", "remap failed", "off"; "-" where nothing is known. */
ValueText value_ecc;
/* Degrees left before the hardware slows down, NAN where not known. */
double value_margin(const Reading *reading);
/* Whether the device has this metric: a value, or one that is missing only now. */
bool value_is_supported(const Reading *reading, MetricId id);

/* settings.c */
void top_apply_settings(Top *top, const TopSettings *settings);

/* plots.c: the table of what can be plotted. */
enum { PLOT_SERIES_MAX = 2 };

/* The value at a plot's upper edge. */
typedef enum Edge { EDGE_WHOLE, EDGE_LIMIT, EDGE_HIGHEST } Edge;

typedef struct TopPlot {
    const char *title, *names[PLOT_SERIES_MAX]; /* names: in its legend */
    MetricId ids[PLOT_SERIES_MAX];              /* METRIC_END: one series */
    Edge edge;
    MetricId limit; /* of EDGE_LIMIT */
} TopPlot;

extern const TopPlot top_plots[];
extern const size_t top_plot_count;
/* Whether the device has anything to plot. */
bool plots_there(const Top *top, const GpuRow *row);
void plots_draw(Top *top, Grid *grid, Area area, const GpuRow *row);
void plot_spark_of(Top *top, Grid *grid, Area area, const GpuRow *row);
