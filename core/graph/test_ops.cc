// Ops for the tests of this folder, which lies below kernels/: a few of TensorFlow's signatures,
// with just as much of their shape functions as the tests look at.
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status ConstShape(ShapeContext& c) { return c.SetOutput(0, c.Attr<Tensor>("value").shape()); }

absl::Status PlaceholderShape(ShapeContext& c) {
  return c.SetOutput(0, c.Attr<PartialShape>("shape"));
}

absl::Status MatMulShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 2));
  return absl::OkStatus();
}

TANDEM_OP("Const").Outputs("output:dtype").Attrs("value:tensor; dtype:type").Shape(ConstShape);
TANDEM_OP("NoOp").Shape(NoOutputs).Stateful();
TANDEM_OP("Placeholder")
    .Outputs("output:dtype")
    .Attrs("dtype:type; shape:shape=unknown")
    .Shape(PlaceholderShape);
TANDEM_OP("MatMul")
    .Inputs("a:T, b:T")
    .Outputs("product:T")
    .Attrs("transpose_a:bool=False; transpose_b:bool=False; T:type{float32,float64,int32}")
    .Shape(MatMulShape);
TANDEM_OP("AddV2")
    .Inputs("x:T, y:T")
    .Outputs("z:T")
    .Attrs("T:type{float16,bfloat16,float32,float64,int32,int64,uint8,complex64}")
    .Shape(BroadcastShape);
TANDEM_OP("Less")
    .Inputs("x:T, y:T")
    .Outputs("z:bool")
    .Attrs("T:type{float32,float64,int32,int64}")
    .Shape(BroadcastShape);
TANDEM_OP("Identity").Inputs("input:T").Outputs("output:T").Attrs("T:type").Shape(UnchangedShape);
TANDEM_OP("Cast")
    .Inputs("x:SrcT")
    .Outputs("y:DstT")
    .Attrs("SrcT:type; DstT:type; Truncate:bool=False")
    .Shape(UnchangedShape);
TANDEM_OP("ConcatV2")
    .Inputs("values:N*T, axis:Tidx")
    .Outputs("output:T")
    .Attrs("N:int>=2; T:type; Tidx:type{int32,int64}=int32")
    .Shape(UnknownShape);
TANDEM_OP("Split")
    .Inputs("split_dim:int32, value:T")
    .Outputs("output:num_split*T")
    .Attrs("num_split:int>=1; T:type")
    .Shape(UnknownShape);
TANDEM_OP("TopKV2")
    .Inputs("input:T, k:Tk")
    .Outputs("values:T, indices:index_type")
    .Attrs(
        "sorted:bool=True; T:type{float32,float64,int32}; Tk:type{int16,int32,int64}=int32; "
        "index_type:type{int16,int32,int64}=int32")
    .Shape(UnknownShape);
TANDEM_OP("IdentityN")
    .Inputs("input:T")
    .Outputs("output:T")
    .Attrs("T:list(type)>=1")
    .Shape(UnknownShape);
TANDEM_OP("Assert")
    .Inputs("condition:bool, data:T")
    .Attrs("T:list(type)>=1; summarize:int=3")
    .Shape(NoOutputs)
    .Stateful();
TANDEM_OP("VariableV2")
    .Outputs("ref:ref dtype")
    .Attrs("shape:shape; dtype:type; container:string=\"\"; shared_name:string=\"\"")
    .Shape(UnknownShape)
    .Stateful();
TANDEM_OP("Assign")
    .Inputs("ref:ref T, value:T")
    .Outputs("output_ref:ref T")
    .Attrs("T:type; validate_shape:bool=True; use_locking:bool=True")
    .Shape(UnknownShape);
TANDEM_OP("Conv2D")
    .Inputs("input:T, filter:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32}; strides:list(int); use_cudnn_on_gpu:bool=True; "
        "padding:string{SAME,VALID,EXPLICIT}; explicit_paddings:list(int)=[]; "
        "data_format:string{NHWC,NCHW}=NHWC; dilations:list(int)=[1,1,1,1]")
    .Shape(UnknownShape);
TANDEM_OP("ParseExample")
    .Inputs(
        "serialized:string, names:string, sparse_keys:Nsparse*string, "
        "dense_keys:Ndense*string, dense_defaults:Tdense")
    .Outputs(
        "sparse_indices:Nsparse*int64, sparse_values:sparse_types, "
        "sparse_shapes:Nsparse*int64, dense_values:Tdense")
    .Attrs(
        "Nsparse:int>=0; Ndense:int>=0; sparse_types:list(type){float32,int64,string}>=0; "
        "Tdense:list(type){float32,int64,string}>=0; dense_shapes:list(shape)>=0")
    .Shape(UnknownShape);
TANDEM_OP("PartitionedCall")
    .Inputs("args:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tin:list(type)>=0; Tout:list(type)>=0; f:func; config:string=\"\"; "
        "config_proto:string=\"\"; executor_type:string=\"\"")
    .Shape(UnknownShape);
TANDEM_OP("StatefulPartitionedCall")
    .Inputs("args:Tin")
    .Outputs("output:Tout")
    .Attrs(
        "Tin:list(type)>=0; Tout:list(type)>=0; f:func; config:string=\"\"; "
        "config_proto:string=\"\"; executor_type:string=\"\"")
    .Shape(UnknownShape)
    .Stateful();
TANDEM_OP("Enter")
    .Inputs("data:T")
    .Outputs("output:T")
    .Attrs("T:type; frame_name:string; is_constant:bool=False; parallel_iterations:int=10")
    .Shape(UnchangedShape);
TANDEM_OP("Merge")
    .Inputs("inputs:N*T")
    .Outputs("output:T, value_index:int32")
    .Attrs("T:type; N:int>=1")
    .Shape(UnknownShape);
TANDEM_OP("Switch")
    .Inputs("data:T, pred:bool")
    .Outputs("output_false:T, output_true:T")
    .Attrs("T:type")
    .Shape(UnknownShape);
TANDEM_OP("LoopCond").Inputs("input:bool").Outputs("output:bool").Shape(ScalarShape);
TANDEM_OP("NextIteration")
    .Inputs("data:T")
    .Outputs("output:T")
    .Attrs("T:type")
    .Shape(UnchangedShape);
TANDEM_OP("Exit").Inputs("data:T").Outputs("output:T").Attrs("T:type").Shape(UnchangedShape);

}  // namespace
}  // namespace tandem
