// Signatures with everything that wrappers have to deal with.
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

TANDEM_OP("MatMul")
    .Inputs("a:T, b:T")
    .Outputs("product:T")
    .Attrs("transpose_a:bool=False; transpose_b:bool=False; T:type{float32,float64}")
    .Shape(UnknownShape);
TANDEM_OP("Const").Outputs("output:dtype").Attrs("value:tensor; dtype:type").Shape(UnknownShape);
TANDEM_OP("NoOp").Shape(NoOutputs);
TANDEM_OP("_Hidden").Shape(NoOutputs);
TANDEM_OP("Placeholder")
    .Outputs("output:dtype")
    .Attrs("dtype:type; shape:shape=unknown")
    .Shape(UnknownShape);
TANDEM_OP("Conv2D")
    .Inputs("input:T, filter:T")
    .Outputs("output:T")
    .Attrs(
        "T:type{float32}; strides:list(int); padding:string{SAME,VALID}; "
        "data_format:string{NHWC,NCHW}=NHWC; dilations:list(int)=[1,1,1,1]")
    .Shape(UnknownShape);
TANDEM_OP("TopKV2")
    .Inputs("input:T, k:int32")
    .Outputs("values:T, indices:index_type")
    .Attrs("sorted:bool=True; T:type{float32,int32}; index_type:type{int32,int64}=int32")
    .Shape(UnknownShape);
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
TANDEM_OP("ParseExample")
    .Inputs("serialized:string, sparse_keys:Nsparse*string, dense_defaults:Tdense")
    .Outputs("sparse_indices:Nsparse*int64, sparse_values:sparse_types, dense_values:Tdense")
    .Attrs(
        "Nsparse:int>=0; sparse_types:list(type){float32,int64,string}>=0; "
        "Tdense:list(type){float32,int64,string}>=0")
    .Shape(UnknownShape);
TANDEM_OP("Keywords")
    .Inputs("default:float32, scope:float32")
    .Outputs("switch:float32, union:float32")
    .Attrs(
        "class:int; options:float=0.5; delete:string=\"a b\"; new:int=-1; "
        "types:list(type)=[int64]; auto:float=1e-10")
    .Shape(UnknownShape);

}  // namespace
}  // namespace tandem
